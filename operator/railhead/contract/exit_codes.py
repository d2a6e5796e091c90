"""Exit codes of the head pod's container: how an attempt ended, in one number.

The termination message says the same with words (`outcome.Outcome`); the code is what is
left when the message is lost. The range 64-113 is free of shells', signals' and Python's
own meanings.
"""

SUCCEEDED = 0
APPLICATION = 64
CONFIGURATION = 65
INFRASTRUCTURE = 66
OUT_OF_MEMORY = 67
TERMINATED = 68  # asked to end by SIGTERM; the last checkpoint is committed
FENCED = 69  # a later attempt has taken over the run; nothing more was committed or deleted
HANG = 70  # training reported nothing for too long

CLASS_OF_CODE = {
    APPLICATION: "Application",
    CONFIGURATION: "Configuration",
    INFRASTRUCTURE: "Infrastructure",
    OUT_OF_MEMORY: "OutOfMemory",
    TERMINATED: "Preemption",
    FENCED: "Fenced",
    HANG: "Hang",
}
CODE_OF_CLASS = {name: code for code, name in CLASS_OF_CODE.items()}
