"""Exit codes of the head pod's container: how an attempt ended, in one number. Read from `contract.failure`.

The termination message says the same with words (`outcome.Outcome`); the code is what is
left when the message is lost.
"""

from railhead.contract.failure import POLICIES, SUCCEEDED_CODE, FailureClass

SUCCEEDED = SUCCEEDED_CODE
APPLICATION = FailureClass.APPLICATION.exit_code
CONFIGURATION = FailureClass.CONFIGURATION.exit_code
INFRASTRUCTURE = FailureClass.INFRASTRUCTURE.exit_code
OUT_OF_MEMORY = FailureClass.OUT_OF_MEMORY.exit_code
TERMINATED = FailureClass.PREEMPTION.exit_code
FENCED = FailureClass.FENCED.exit_code
HANG = FailureClass.HANG.exit_code

CLASS_OF_CODE = {row.exit_code: kind.value for kind, row in POLICIES.items() if row.exit_code is not None}
CODE_OF_CLASS = {name: code for code, name in CLASS_OF_CODE.items()}
