"""The defects that `tools/mutants.py` puts in, one at a time, with the tests of which one must fail.

Of wrong values, of a wrong order, of an omission, of a wrong set of pods.
"""

from __future__ import annotations

from dataclasses import dataclass

CRASHES = "tests/model/test_crash_points.py"
SCHEDULES = "tests/model/test_schedules.py"
STALE = "tests/unit/planning/test_stale_views.py"
SUSPEND = "tests/unit/planning/decisions/test_suspend.py"
DEADLINES = "tests/unit/planning/decisions/test_deadlines.py"
CLEAN_UP = "tests/unit/planning/decisions/test_clean_up.py"
ORDER = "tests/unit/planning/test_order.py"
WHOLE = "tests/unit/planning/test_whole_plans.py"


@dataclass(frozen=True)
class Defect:
    """One defect: what it is, where, and the tests of which one must fail."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DEFECTS = (
    Defect(
        "a delete without its uid",
        "controller/executor.py",
        ", uid=delete.uid)",
        ")",
        ("tests/unit/controller/test_executor.py",),
    ),
    Defect(
        "pods are made before the status says so",
        "controller/executor.py",
        "        if plan.status is not None:\n            if plan.status.pods",
        "        await self._all(self._make(key, uid, c) for c in plan.creates)\n"
        "        if plan.status is not None:\n            if plan.status.pods",
        (SCHEDULES,),
    ),
    Defect(
        "a status write without its tests",
        "controller/executor.py",
        "for path, value in write.tests.items()]\n",
        "for path, value in {}.items()]\n",
        (SCHEDULES, "tests/unit/controller/test_executor.py"),
    ),
    Defect(
        "a loss without a trace is believed",
        "controller/executor.py",
        "            if plan.status.pods is not None:\n",
        "            if False:\n",
        ("tests/unit/controller/test_executor.py",),
    ),
    Defect(
        "the next attempt begins beside a head that was not seen yet",
        "planning/attempt_begin.py",
        "decision.status.requiring(Requirement.FRESH_PODS)",
        "decision.status",
        (STALE,),
    ),
    Defect(
        "the answer to a create is not learnt",
        "controller/executor.py",
        '        if create.kind == "Pod":\n            self.cache.record_pod(answer)\n',
        "",
        ("tests/unit/controller/test_executor.py",),
    ),
    Defect(
        "a 404 on a status write means that the job is gone",
        "controller/executor.py",
        "        except (Gone, Conflict, Denied) as error:\n",
        "        except Gone:\n            self.cache.record_job_gone(key, uid)\n"
        "            raise LostCompare('gone') from None\n"
        "        except (Conflict, Denied) as error:\n",
        (CRASHES, "tests/unit/controller/test_executor.py"),
    ),
    Defect(
        "the decision to lose an attempt counts, not the begin of the next",
        "planning/attempt_end.py",
        'status = replace(status, phase="Restarting")',
        'status = replace(status, phase="Restarting", restarts=type(job.status.restarts)(application=1))',
        (CRASHES,),
    ),
    Defect(
        "the next attempt does not wait for the pods of the last",
        "planning/decisions/next_attempt.py",
        "    if remains:\n",
        "    if False:\n",
        (SCHEDULES, "tests/unit/planning"),
    ),
    Defect(
        "counters do not rise with the attempt",
        "planning/decisions/next_attempt.py",
        "replace(decision.status, restarts=_count(job, failure))",
        "decision.status",
        (CRASHES,),
    ),
    Defect(
        "a replacement without a new round",
        "planning/decisions/replacement.py",
        "round_ = job.status.round + 1\n",
        "round_ = job.status.round\n",
        (CRASHES,),
    ),
    Defect(
        "ended pods of earlier attempts stay",
        "planning/decisions/stale_pods.py",
        "[pod for pod in job.pods if pod.attempt < job.attempt]",
        "job.stale_pods",
        (CRASHES,),
    ),
    Defect(
        "a finished job keeps what is left of it",
        "planning/decisions/finished.py",
        "        deletes=delete_all(pod for pod in observed.pods if pod not in kept),\n",
        "        deletes=(),\n",
        (
            "tests/unit/planning/test_scenarios.py",
            CRASHES,
        ),
    ),
    Defect(
        "exit code 0 is success, whatever the driver said",
        "planning/pod_view.py",
        "self.exit_code == 0 and self.outcome is not None and self.outcome.has_succeeded",
        "self.exit_code == 0",
        ("tests/unit/planning/test_scenarios.py",),
    ),
    Defect(
        "missing pods are made without a look at the status",
        "planning/decisions/uncreated_pods.py",
        "        status=GUARD,\n",
        "",
        (STALE,),
    ),
    Defect(
        "two pods of one slot may stay",
        "planning/decisions/stale_pods.py",
        ", *job.workers.duplicates]",
        "]",
        (STALE,),
    ),
    Defect(
        "a suspended job's workers go with the head",
        "planning/decisions/suspend.py",
        "            return Decision(deletes=delete_all([head]))\n",
        "            return Decision(deletes=delete_all(job.pods))\n",
        (SUSPEND,),
    ),
    Defect(
        "an old spec may suspend",
        "planning/decisions/suspend.py",
        "status=status.requiring(Requirement.SAME_SPEC))\n",
        "status=status)\n",
        (SUSPEND,),
    ),
    Defect(
        "a drained head's workers go at once",
        "planning/decisions/loss.py",
        "    elif head.may_still_end(job.now):\n",
        "    elif False:\n",
        (SUSPEND,),
    ),
    Defect(
        "suspended time counts",
        "planning/facts/deadlines.py",
        "limit + max(job.status.suspended_seconds, 0)",
        "limit",
        (DEADLINES,),
    ),
    Defect(
        "a limit is not looked at again by itself",
        "planning/amendments/wake.py",
        "    decision = decision.waking(next_due(job))\n",
        "",
        (DEADLINES,),
    ),
    Defect(
        "a finished job's children go before their time",
        "planning/decisions/clean_up.py",
        "    if due is None or due > job.now:\n",
        "    if due is None:\n",
        (CLEAN_UP,),
    ),
    Defect(
        "a finished job is cleaned up again and again",
        "planning/decisions/clean_up.py",
        "    if job.status.clean_up_time:\n",
        "    if False:\n",
        (CLEAN_UP,),
    ),
    Defect(
        "time in which the driver was not run counts as silence of training",
        "driver/hang_detection.py",
        "min(now - self._looked_at, LONGEST_LOOK)",
        "now - self._looked_at",
        ("tests/unit/driver/test_hang_detection.py",),
    ),
    Defect(
        "the wait for validations after training counts as silence",
        "driver/reporting/progress.py",
        ' and name != "SHUTTING_DOWN"',
        "",
        ("tests/unit/driver/reporting/test_progress.py",),
    ),
    Defect(
        "the operator's own clock is asked",
        "kube/clock.py",
        "        if self._zero is None:\n            return self._wall()\n",
        "        return self._wall()\n",
        ("tests/unit/kube/test_clock.py", SCHEDULES),
    ),
    Defect(
        "nobody waits for a pod that was told to go",
        "planning/observed.py",
        "if not pod.is_over and not pod.is_out_of_reach(self.now))",
        "if not pod.is_over and not pod.is_deleting)",
        (
            "tests/unit/planning/test_properties.py",
            CRASHES,
        ),
    ),
    Defect(
        "what the driver has seen is not known to have been there",
        "planning/job.py",
        "self.joined if is_first_group else 0",
        "0",
        ("tests/unit/planning/test_stale_views.py",),
    ),
    Defect(
        "a pod on a dead node is waited for without end",
        "planning/pod_view.py",
        "return at is not None and now >= at",
        "return False",
        ("tests/unit/planning/test_scenarios.py",),
    ),
    Defect(
        "each commit is an event",
        "planning/amendments/commit_events.py",
        "at > job.now:",
        "at > at:",
        ("tests/unit/planning/amendments/test_commit_events.py",),
    ),
    Defect(
        "half an attempt is held for ever for a pod that is refused",
        "planning/planner.py",
        "    decide_partial_gang,  # an",
        "    # an",
        ("tests/unit/planning/decisions/test_partial_gang.py",),
    ),
    Defect(
        "what was refused is made again in each pass",
        "planning/amendments/create_backoff.py",
        "    if at <= job.now:\n        return decision\n",
        "    return decision\n",
        ("tests/unit/planning/test_rejections.py",),
    ),
    Defect(
        "a limit that fell due hides the loss that happened",
        "planning/planner.py",
        "    decide_loss,  #",
        "    decide_startup_deadline,\n    decide_loss,  #",
        (ORDER,),
    ),
    Defect(
        "a job that is to rest is not stopped by its deadline",
        "planning/planner.py",
        "    decide_active_deadline,  #",
        "    decide_suspend,\n    decide_active_deadline,  #",
        (ORDER,),
    ),
    Defect(
        "a head that ended well is a loss",
        "planning/planner.py",
        "    decide_success,  #",
        "    decide_loss,\n    decide_success,  #",
        (ORDER,),
    ),
    Defect(
        "missing pods are created before their slots are decided",
        "planning/planner.py",
        "    decide_resize,  #",
        "    decide_replacement,\n    decide_resize,  #",
        (ORDER,),
    ),
    Defect(
        "a lost pod's name is used again",
        "planning/planner.py",
        "    decide_replacement,  #",
        "    decide_uncreated_pods,\n    decide_replacement,  #",
        (ORDER,),
    ),
    Defect(
        "a lost attempt ends once more",
        "planning/planner.py",
        "    decide_next_attempt,  #",
        "    decide_success,\n    decide_next_attempt,  #",
        (ORDER,),
    ),
    Defect(
        "a suspended job begins as if it were new",
        "planning/planner.py",
        "    decide_resume,  #",
        "    decide_first_attempt,\n    decide_resume,  #",
        (ORDER,),
    ),
    Defect(
        "an attempt is compared with pods before it is known",
        "planning/planner.py",
        "    decide_first_attempt,  #",
        "    decide_stale_pods,\n    decide_first_attempt,  #",
        (ORDER,),
    ),
    Defect(
        "a replacement leaves the ended worker pods",
        "planning/decisions/replacement.py",
        "        deletes=delete_all(job.workers.lost),\n",
        "",
        (WHOLE,),
    ),
    Defect(
        "a replacement takes the live workers along",
        "planning/decisions/replacement.py",
        "delete_all(job.workers.lost)",
        "delete_all((*job.workers.lost, *job.workers.live))",
        (WHOLE,),
    ),
    Defect(
        "a lost attempt keeps its live pods",
        "planning/attempt_end.py",
        "        deletes=delete_all(pod for pod in job.pods if pod.is_live),\n",
        "",
        (WHOLE,),
    ),
    Defect(
        "a lost attempt deletes its evidence",
        "planning/attempt_end.py",
        "delete_all(pod for pod in job.pods if pod.is_live)",
        "delete_all(job.pods)",
        (WHOLE,),
    ),
    Defect(
        "the next attempt leaves the pods of the last",
        "planning/attempt_begin.py",
        "        deletes=delete_all(job.pods),\n",
        "",
        (WHOLE,),
    ),
    Defect(
        "a head pod that ended goes with its workers",
        "planning/decisions/finished.py",
        "if pod.role == HEAD and (pod.is_over",
        "if pod.role != HEAD and (pod.is_over",
        (WHOLE,),
    ),
    Defect(
        "workers that run go before those that do not",
        "planning/job.py",
        "(not pod.is_up, pod.slot)",
        "(pod.is_up, pod.slot)",
        (WHOLE,),
    ),
    Defect(
        "more workers go than are too many",
        "planning/job.py",
        "ranked[self.desired_workers :]",
        "ranked[self.desired_workers - 1 :]",
        (WHOLE,),
    ),
    Defect(
        "conditions of other controllers are erased",
        "planning/status_write.py",
        "merge_conditions(status.conditions, change",
        "merge_conditions((), change",
        (WHOLE,),
    ),
    Defect(
        "an attempt ends on an old view of its pods",
        "planning/attempt_end.py",
        ".requiring(Requirement.FRESH_PODS)",
        "",
        (WHOLE,),
    ),
    Defect(
        "an unknown failure class ends the job",
        "contract/failure.py",
        "_BY_NAME.get(text, FailureClass.INFRASTRUCTURE)",
        "_BY_NAME.get(text, FailureClass.CONFIGURATION)",
        ("tests/unit/contract/test_failure.py",),
    ),
    Defect(
        "a driver's message may name a class that costs nobody anything",
        "contract/outcome.py",
        "        if kind.policy.exit_code is None:\n",
        "        if False:\n",
        ("tests/unit/contract/test_outcome.py",),
    ),
    Defect(
        "policies of a time when they were switched on stay",
        "planning/children.py",
        "        is_wanted=lambda job: job.settings.has_network_policies,\n",
        "        is_wanted=lambda job: job.settings.has_network_policies,\n"
        "        may_exist=lambda job: job.settings.has_network_policies,\n",
        (CLEAN_UP,),
    ),
    Defect(
        "a report that is too large is sent whole",
        "contract/report.py",
        "            if len(text) <= LIMIT_BYTES:\n",
        "            if text:\n",
        ("tests/unit/contract/test_report.py",),
    ),
)
