"""Names of the environment variables that the operator passes to a pod's entry point.

Paths are passed here and never inside a file, because a local node has no mounts and rewrites
mount paths in command, args and environment.
"""

INPUT = "RAILHEAD_INPUT"  # folder with job.json and report-ca.crt
INPUT_DIGEST = "RAILHEAD_INPUT_DIGEST"  # of these files; `contract.text.digest_files`
TOKEN_DIGEST = "RAILHEAD_TOKEN_DIGEST"  # of Ray's token
SOURCE = "RAILHEAD_SOURCE"  # folder with the user's code; unset = it is in the image
GIT_CREDENTIALS = "RAILHEAD_GIT_CREDENTIALS"  # folder of spec.source.git.secretName, in the init container only
STORAGE = "RAILHEAD_STORAGE"  # run.storagePath
DATASETS = "RAILHEAD_DATASETS"  # JSON: name of a dataset -> its uri, for those that are paths
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
POD_IP = "RAILHEAD_POD_IP"
WORKER_PODS = "RAILHEAD_WORKER_PODS"  # wanted when the head was created; changes for an elastic job
END_SECONDS = "RAILHEAD_END_SECONDS"  # how long the head waits for one more commit after SIGTERM
PROGRESS_DEADLINE = "RAILHEAD_PROGRESS_DEADLINE"  # spec.progressDeadlineSeconds when the head was created; unset = none
REPORT_URL = "RAILHEAD_REPORT_URL"
REPORT_TOKEN = "RAILHEAD_REPORT_TOKEN"  # file with the projected token
TERMINATION_MESSAGE = "RAILHEAD_TERMINATION_MESSAGE"  # file, as terminationMessagePath
GPUS = "RAILHEAD_GPUS"  # set by a worker's entry point: how many answered then; 0 = not known
METRICS_PORT = "RAILHEAD_METRICS_PORT"  # spec.metrics.port; unset = none
TEMP = "RAILHEAD_TEMP"  # short folder for Ray's session; one per pod
# Prefix of a second variable for each whose value comes from a Secret: these values are hidden in what others may read.
FROM_SECRET = "RAILHEAD_FROM_SECRET_"
HOSTS_FILE = "RAILHEAD_HOSTS_FILE"  # set by a local node: looked up before DNS
