"""The table of `railhead why`: for each reason a cause and a remedy, a sentence each.

A reason is that of a condition, of a pod, or of a failure; `why.py` finds the reasons of a job. {name} is the job.
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.client.cause import MESSAGE, WAIT, Cause, change
from railhead.client.queue_causes import QUEUES
from railhead.contract.failure import FailureClass

_IMAGE = Cause(
    "The image cannot be pulled.",
    change("image=IMAGE", "Check the name and the registry's credentials (spec.imagePullSecrets); to correct them, "),
)
_VOLUME = Cause(
    "A volume of the pod cannot be attached or mounted.",
    "Create the Secret, ConfigMap, claim or server that the message names, or free the volume from another node.",
)
_OBJECT = Cause(
    "A Secret or ConfigMap that env or envFrom names does not exist, or lacks the key.",
    "Create the object that the message names; the pod then starts by itself.",
)
_CONTAINER = Cause("A container of the pod cannot be started.", MESSAGE)

# Why pods are not made, or do not start.
PODS: Mapping[str, Cause] = {
    "Unschedulable": Cause(
        "The scheduler finds no node for a pod: no free capacity, no matching node, or a claim that does not exist.",
        change(
            "scaling.resourcesPerWorker.memory=32Gi",
            "Free capacity, add nodes or create the missing claim; to request less, ",
        ),
    ),
    "SchedulingGated": Cause(
        "The pods have scheduling gates, so a queue such as Kueue has not admitted them yet.",
        "Look at the queue: its controller removes the gates when it is the job's turn.",
    ),
    "QuotaExceeded": Cause(
        "The namespace's ResourceQuota has too little left for the job's pods.",
        "End or suspend other jobs of the namespace, or have the quota raised.",
    ),
    "ExceedsQuota": Cause(
        "The job does not fit into the namespace's ResourceQuota even alone.",
        change("scaling.resourcesPerWorker.memory=32Gi", "Have the quota raised; or, to request less per worker, "),
    ),
    "WaitingForTurn": Cause("Another job that waits for the same quota or nodes creates its pods first.", WAIT),
    "PodSecurityViolated": Cause(
        "The namespace's Pod Security level does not allow what podTemplate asks for.",
        "Remove the field that the message names from podTemplate, or have the namespace's labels changed.",
    ),
    "AdmissionDenied": Cause("An admission policy or webhook of the cluster refuses the job's pods.", MESSAGE),
    "AdmissionWebhookFailed": Cause(
        "An admission webhook that the API server must call does not respond.",
        "Ask an administrator to repair the webhook that the message names, or to change its failurePolicy.",
    ),
    "ServiceAccountNotFound": Cause(
        "The service account of podTemplate does not exist.",
        "Create it in the job's namespace, or correct podTemplate.spec.serviceAccountName.",
    ),
    "PodInvalid": Cause(
        "The fields podTemplate, head and worker do not make a valid pod.",
        "Suspend the job, and correct the field that the message names with `railhead resume {name} --set`.",
    ),
    "SourceNotFound": Cause(
        "What the job starts from does not exist: the ConfigMap of spec.source, or the job of spec.resumeFrom.",
        "Create the object that the message names; the job then starts by itself.",
    ),
    "SchedulerMissing": Cause(
        "The API server has no PodGroups of the scheduler in spec.scheduling.gangScheduler.",
        change("scheduling.gangScheduler=NAME", "Have that scheduler installed; or, to name another one, "),
    ),
    "CreateRefused": Cause(
        "The API server refuses an object of the job, or an object of another owner has its name.",
        "Find out who made the object that the message names before you delete it; the job starts once it is gone.",
    ),
    "NodeRefusedPod": Cause(
        "The kubelet of the chosen node refused a pod, for example because a GPU has failed there.",
        "Nothing for the job, which avoids that node; have the node checked.",
    ),
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "InvalidImageName": Cause("The name of the image is not valid.", change("image=IMAGE")),
    "ErrImageNeverPull": Cause(
        "The node does not have the image, and imagePullPolicy is Never.", change("imagePullPolicy=IfNotPresent")
    ),
    "CreateContainerConfigError": _OBJECT,
    "CreateContainerError": _CONTAINER,
    "RunContainerError": _CONTAINER,
    "CrashLoopBackOff": Cause(
        "A container of the pod ends again and again.", "Read its log with `railhead logs {name}`."
    ),
    "FailedMount": _VOLUME,
    "FailedMapVolume": _VOLUME,
    "FailedAttachVolume": _VOLUME,
    "FailedCreatePodSandBox": Cause(
        "The pod gets no network or no sandbox on its node.", "Have the node's container runtime and CNI checked."
    ),
    "ContainerCreating": Cause(
        "The node prepares the pod: it pulls the image or mounts volumes.",
        "Wait; if it takes longer than usual, see `kubectl describe pod` for the step.",
    ),
    "PodInitializing": Cause(
        "An init container of the pod runs, for example the one that fetches spec.source.", "Wait for it."
    ),
    "OOMKilled": Cause(
        "The kernel killed a container that used more memory than its limit.",
        change("scaling.resourcesPerWorker.memory=64Gi"),
    ),
    "Evicted": Cause("The kubelet evicted a pod because its node ran out of a resource.", MESSAGE),
}
# What else the conditions report.
STATES: Mapping[str, Cause] = {
    "Pending": Cause("The job's pods are being created, or wait for their nodes.", "Wait a moment, and ask again."),
    "Starting": Cause(
        "All pods are up; Ray and the worker group start.", "Wait; `railhead logs {name}` shows how far."
    ),
    "Restarting": Cause("The last attempt was lost, and the next one begins after a delay.", WAIT),
    "Suspending": Cause(
        "The job is being suspended: it commits a last checkpoint, then its pods end.",
        "Wait at most spec.suspendGraceSeconds.",
    ),
    "Suspended": Cause(
        "The job is suspended and has no pods.",
        "Run `railhead resume {name}`; if a queue such as Kueue suspends it, look at the queue.",
    ),
    "WorkerLost": Cause("Worker pods were lost and are being replaced; the run continues with new ones.", WAIT),
    "WaitingForWorkers": Cause("Training runs with fewer workers than the job asks for.", WAIT),
    "Resizing": Cause("The elastic job releases worker pods after its next checkpoint.", WAIT),
    "WaitingForPods": Cause(
        "The next attempt waits until the pods of the earlier one have ended.",
        "Wait for their grace period; then look at the node that the message names.",
    ),
    "ReportsMissing": Cause(
        "All pods are up, but the driver's reports do not reach the operator.",
        "Read `railhead logs {name}`, and check that the pods reach the operator's report endpoint.",
    ),
    "InvalidSpec": Cause(
        "This version of the operator cannot read the job's spec.",
        "Correct the field that the message names, or upgrade the operator.",
    ),
    "SourceStillRuns": Cause(
        "The job that spec.resumeFrom names has not ended yet.", "Wait until it ends, or suspend and delete it."
    ),
    "SourceHasNoCheckpoint": Cause(
        "The job that spec.resumeFrom names ended without the checkpoint that this one is to start from.",
        "Create the job without resumeFrom, or name another job or checkpoint.",
    ),
    "NoSteps": Cause(
        "No rank has made a step for long: training hangs, or a step takes much longer than before.",
        "Read where the ranks were in the message, and where they are now in `railhead stacks {name}`; "
        "spec.hangPolicy Restart restarts a hang by itself.",
    ),
    "MetricRule": Cause(
        "A rule of spec.metricPolicy warns about a metric; training continues.",
        "Look at the metric that the message names in `railhead logs {name}`; the warning ends once it is fine again.",
    ),
    "MetricMissing": Cause(
        "No report has the metric of a rule in spec.metricPolicy, so the rule cannot fire.",
        "Report the metric with ray.train.report, or name one that the message lists.",
    ),
    "CheckpointNotWritten": Cause(
        "The storage takes no checkpoint; training continues or restarts meanwhile.",
        "Free space in the storage or renew its credentials: the message has the storage's own error.",
    ),
    "StorageUnreachable": Cause(
        "The storage of the run does not respond.", "Check spec.run.storagePath, its server and the credentials."
    ),
    "StorageNotShared": Cause(
        "The pods do not see the same storage, so a checkpoint of one is unknown to the others.",
        "Use a ReadWriteMany volume, NFS or object storage for spec.run.storagePath.",
    ),
    "CheckpointMissing": Cause("Checkpoints were lost; the run continues from an older one.", MESSAGE),
    "SnapshotUnreadable": Cause("Ray Train's record of the checkpoints is damaged; an older one is used.", MESSAGE),
    "RunNameDiffers": Cause(
        "The code gave the run another name, so a new attempt may not find its checkpoints.",
        "Remove name from the code's RunConfig, or set spec.run.name to it.",
    ),
    "StoragePathDiffers": Cause(
        "The code uses another storage path, so a new attempt may not find its checkpoints.",
        "Remove storage_path from the code's RunConfig, or set spec.run.storagePath to it.",
    ),
    "CheckpointNameRepeated": Cause(
        "An upload overwrites a checkpoint that is kept.", "Give each checkpoint a name that is not used again."
    ),
    "DeleteDenied": Cause(
        "The API server does not let the operator delete an object of the job.",
        "Ask an administrator to change the policy that the message names.",
    ),
    "ChangeDenied": Cause(
        "The API server does not let the operator change the job's Workload, by which Kueue knows of the job.",
        "Ask an administrator to change the webhook, the policy or the rights that the message names.",
    ),
    "QueueLost": Cause(
        "The job runs, but the operator cannot watch Kueue's objects any more.",
        "Have Kueue installed, and Railhead's chart with queue.kueue.enabled=true.",
    ),
    "ForeignPods": Cause(
        "Pods of another owner carry the job's label; the operator ignores them.", "Delete these copies."
    ),
    "CPULimitAdded": Cause(
        "A LimitRange gave the pods a CPU limit that the job did not ask for, which slows training down.",
        "Have the LimitRange changed, or set the limit in podTemplate.",
    ),
    "EndNotAnnounced": Cause(
        "The image's Ray is too old to ask for a last checkpoint before the run ends.", "Use Ray 2.58 or newer."
    ),
    "RayNewerThanTested": Cause(
        "The image's Ray is newer than this version of Railhead was tested with.",
        "Upgrade Railhead, or use an older Ray if something is wrong.",
    ),
    "Training": Cause("Training runs.", "Nothing."),
    "Succeeded": Cause("The job has succeeded.", "Nothing; its checkpoint is in `railhead status {name}`."),
}
# What only the command sees.
FOUND: Mapping[str, Cause] = {
    "NotObserved": Cause(
        "The operator has not seen the job.",
        "Wait a moment; then check that the operator runs and watches this namespace: "
        "`kubectl get pods -n railhead-system`.",
    ),
    "CodePending": Cause(
        "The job is not complete: `railhead submit` ended before it had sent the code.",
        "Submit it again with the same command, which continues, or run `railhead delete {name}`.",
    ),
    "ManagedElsewhere": Cause(
        "Another controller manages the job (spec.managedBy), so this cluster's operator leaves it alone.",
        "Look at the job in the cluster that runs it.",
    ),
    "BeingDeleted": Cause(
        "The job is being deleted.", "Wait; a finalizer in its metadata names the controller that still keeps it."
    ),
    "PodsStuck": Cause(
        "Pods stay Terminating long after their grace period and may still use their GPUs.",
        "Look at their node; if its machine is off for good, delete the node.",
    ),
    "NodesAvoided": Cause(
        "The job avoids nodes that refused a pod or whose hardware failed.", "Have these nodes checked."
    ),
    "SlowRank": Cause(
        "Ranks compute slowly, by the sections that the code marks, and all others wait for them in each step.",
        "Compare their nodes with the others (GPU clocks, temperature, other load); if all ranks are slow, the work of "
        "a step may have grown.",
    ),
    "ReportsStale": Cause(
        "Training runs, but the driver has reported no progress for more than 15 minutes.",
        "Read `railhead logs {name}`: the last lines say what the driver waits for.",
    ),
    "NoCheckpoint": Cause(
        "The job has trained for long without a checkpoint, so a lost attempt starts from scratch.",
        "Report checkpoints with ray.train.report(metrics, checkpoint=...).",
    ),
    "LastTry": Cause(
        "The next failure of the application ends the job, because backoffLimit is used up.",
        'Raise it while the job runs: `kubectl patch rtj {name} --type merge -p \'{{"spec":{{"backoffLimit":6}}}}\'`.',
    ),
}
_RETRY = "run `railhead retry {name}`, which starts from the last checkpoint"
# Reasons of status.failure that have more to say than their class.
FAILURES: Mapping[str, Cause] = {
    "TrainFunctionRaised": Cause("The training function raised an exception.", f"Fix the code; then {_RETRY}."),
    "TrainFunctionNotReturned": Cause("A rank ended without returning from the training function.", MESSAGE),
    "TrainingProcessDied": Cause(
        "A training process died, by a signal or by calling exit.",
        "Read the end of its output in `railhead logs {name}`.",
    ),
    "MetricRule": Cause(
        "A rule of spec.metricPolicy ended the attempt.",
        "Read which rule, and at which step, in the message; fix the cause before another job continues.",
    ),
    "SharedMemoryFull": Cause("/dev/shm of a worker pod is full.", "Raise spec.worker.sharedMemory."),
    "ScriptFailed": Cause("The script of trainer.entrypoint exited with an error.", f"Fix it; then {_RETRY}."),
    "EntrypointNotUsable": Cause(
        "The code that trainFunc, build or entrypoint names cannot be imported in the pods.",
        "Check the module and function, spec.source and the image.",
    ),
    "StorageRefused": Cause(
        "The storage rejects the job: wrong credentials, no such bucket, or no right to write.",
        "Check spec.run.storagePath and the Secret in envFrom.",
    ),
    "CheckpointsLost": Cause(
        "All checkpoints of the run are lost.", "Restore them, or start a new job under another run name."
    ),
    "ResumeFromNotFound": Cause("The checkpoint of spec.resumeFrom is missing or empty.", "Name another one."),
    "RunTakenOver": Cause("Another job uses the same run.name and storage path.", "Choose another spec.run.name."),
    "RayTooOld": Cause("The image's Ray is too old.", "Use an image with Ray 2.52 or newer."),
    "FrameworkMissing": Cause("The image lacks the framework of trainer.framework.", "Install it in the image."),
    "AcceleratorNotThere": Cause("No worker has the accelerator that the job asks for.", "Correct acceleratorType."),
    "SecretNotFound": Cause("The Secret of source.git does not exist.", "Create it."),
    "SourceNotFetched": Cause("The git repository of spec.source could not be fetched.", MESSAGE),
    "CommitNotFound": Cause("The commit of source.git does not exist.", "Push it, or correct the revision."),
    "StartDeadlineExceeded": Cause("Training did not start within spec.startDeadlineSeconds.", WAIT),
    "RestartDeadlineExceeded": Cause("Training did not start again within spec.restartDeadlineSeconds.", WAIT),
    "PartialStartDeadlineExceeded": Cause(
        "Only some pods found a node, and Railhead released them for other jobs; it tries again.",
        "Free capacity or add nodes.",
    ),
    "ActiveDeadlineExceeded": Cause(
        "The job ran longer than spec.activeDeadlineSeconds.", "Retry with a longer limit."
    ),
    "ProgressDeadlineExceeded": Cause(
        "Training reported nothing for spec.progressDeadlineSeconds.",
        "Read where the ranks are stuck in the message; raise the limit if a step is meant to take that long.",
    ),
    "CollectiveTimedOut": Cause(
        "A collective between the ranks timed out.", "The message names the rank that did not take part; start there."
    ),
    "GPUFailed": Cause("A GPU failed beyond doubt.", "Have the node's GPU replaced; the job avoids the node."),
    "NetworkFailed": Cause("The network between ranks failed.", "If it repeats, have the nodes' network checked."),
}
CLASSES: Mapping[FailureClass, Cause] = {
    FailureClass.APPLICATION: Cause("The training code failed.", f"Read the message and fix the code; then {_RETRY}."),
    FailureClass.CONFIGURATION: Cause(
        "The job cannot run as specified.", "Correct what the message names; then run `railhead retry {name} --set`."
    ),
    FailureClass.INFRASTRUCTURE: Cause("A pod, a node, Ray or the storage failed.", MESSAGE),
    FailureClass.OUT_OF_MEMORY: Cause(
        "A process was killed for its memory use.",
        "Raise scaling.resourcesPerWorker.memory, or head.resources if the message names the head.",
    ),
    FailureClass.PREEMPTION: Cause("A pod was preempted, evicted or drained.", WAIT),
    FailureClass.STARTUP: Cause("Training did not start in time, or pods were rejected.", MESSAGE),
    FailureClass.HANG: Cause("Training hung.", "Read where the ranks are stuck, in the message."),
    FailureClass.DEADLINE_EXCEEDED: Cause(
        "The time of spec.activeDeadlineSeconds has passed.", f"To continue, {_RETRY}."
    ),
    FailureClass.METRIC_RULE: Cause("A rule of spec.metricPolicy ended the job.", f"Fix the cause; then {_RETRY}."),
    FailureClass.FENCED: Cause("Another head has taken over the run.", WAIT),
    FailureClass.HARDWARE: Cause(
        "A GPU, or the network between GPUs, failed.", "Have the GPU of the node that the message names checked."
    ),
}


def find_cause(reason: str, class_: FailureClass | None = None) -> Cause:
    """Returns the cause of the reason, else that of the failure class, else one that points to the message."""
    tables = (FAILURES, PODS, QUEUES, STATES, FOUND) if class_ else (PODS, QUEUES, STATES, FOUND)
    found = next((table[reason] for table in tables if reason in table), None)
    if found is None and class_ is not None:
        found = CLASSES[class_]
    return found or Cause(f"The reason is {reason or 'not given'}.", MESSAGE)
