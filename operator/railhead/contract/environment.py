"""Names of the environment variables that the operator passes to a pod's entry point.

A value that is the same in all pods of a run is a field of `contract.job_input.JobInput` instead. What stays here:

- what a process needs to find and check that file: INPUT, INPUT_DIGEST, TOKEN_DIGEST, BUNDLE, TEMP, and
  TERMINATION_MESSAGE, by which it reports that it cannot;
- where the other mounts of the pod are: SOURCE, GIT_CREDENTIALS, REPORT_TOKEN;
- what only the kubelet or the pod itself knows: POD_NAME, POD_UID, POD_IP, NODE_NAME, GPUS, HOSTS_FILE;
- what differs between attempts, or was so when the head was created: ATTEMPT, HEAD_HOST, HEAD_PORT, CHECKPOINT_INDEX,
  KNOWN_CHECKPOINTS, RESUME_FROM, WORKER_PODS, PROGRESS_DEADLINE, REPORT_URL, IMAGE. The input's name follows from its
  content, and a ConfigMap that is lost in an attempt can only be created again while the content is the same;
- FROM_SECRET, since a Secret's value may stand in no ConfigMap.
"""

INPUT = "RAILHEAD_INPUT"  # folder with job.json and report-ca.crt
INPUT_DIGEST = "RAILHEAD_INPUT_DIGEST"  # of these files; `contract.digest.digest_files`
TOKEN_DIGEST = "RAILHEAD_TOKEN_DIGEST"  # of Ray's token
SOURCE = "RAILHEAD_SOURCE"  # folder with the user's code; unset = it is in the image
GIT_CREDENTIALS = "RAILHEAD_GIT_CREDENTIALS"  # folder of spec.source.git.secretName, in the init container only
BUNDLE = "RAILHEAD_BUNDLE"  # the zipapp itself
ATTEMPT = "RAILHEAD_ATTEMPT"
CHECKPOINT_INDEX = "RAILHEAD_CHECKPOINT_INDEX"  # index of the newest known commit, -1 = none
# JSON list of {name, run, folder, index, time, attempt}: folder, the run's folder, the folder that has that one, and
# commit of status.checkpoint and status.bestCheckpoint
KNOWN_CHECKPOINTS = "RAILHEAD_KNOWN_CHECKPOINTS"
RESUME_FROM = "RAILHEAD_RESUME_FROM"  # URI or path of the checkpoint of spec.resumeFrom
HEAD_HOST = "RAILHEAD_HEAD_HOST"  # DNS name of this attempt's head pod
HEAD_PORT = "RAILHEAD_HEAD_PORT"  # its GCS port
POD_NAME = "RAILHEAD_POD_NAME"
POD_UID = "RAILHEAD_POD_UID"  # of a head pod
IMAGE = "RAILHEAD_IMAGE"  # spec.image, for the record of the run
NODE_NAME = "RAILHEAD_NODE_NAME"  # of the Kubernetes node
POD_IP = "RAILHEAD_POD_IP"
WORKER_PODS = "RAILHEAD_WORKER_PODS"  # wanted when the head was created; changes for an elastic job
PROGRESS_DEADLINE = "RAILHEAD_PROGRESS_DEADLINE"  # spec.progressDeadlineSeconds when the head was created; unset = none
REPORT_URL = "RAILHEAD_REPORT_URL"  # of the operator that created the head
REPORT_TOKEN = "RAILHEAD_REPORT_TOKEN"  # file with the projected token
TERMINATION_MESSAGE = "RAILHEAD_TERMINATION_MESSAGE"  # file, as terminationMessagePath
GPUS = "RAILHEAD_GPUS"  # set by a worker's entry point: how many answered then; 0 = not known
TEMP = "RAILHEAD_TEMP"  # short folder for Ray's session; one per pod
# Prefix of a second variable for each whose value comes from a Secret: these values are hidden in what others may read.
FROM_SECRET = "RAILHEAD_FROM_SECRET_"
HOSTS_FILE = "RAILHEAD_HOSTS_FILE"  # set by a local node: looked up before DNS
