"""The defects that `tools/mutants.py` injects, one at a time, each with the tests of which one must fail.

Wrong values, a wrong order, omissions, a wrong set of pods.
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
FAILURE_POLICY = "tests/unit/planning/test_failure_policy.py"
STUCK = "tests/unit/planning/amendments/test_stuck_pods.py"
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
        "pods are created before the status write",
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
        "a loss without a trace is not verified",
        "controller/executor.py",
        "            if plan.status.pods is not None:\n",
        "            if False:\n",
        ("tests/unit/controller/test_executor.py",),
    ),
    Defect(
        "the next attempt starts beside an unseen head",
        "planning/attempt_begin.py",
        "decision.status.requiring(Requirement.FRESH_PODS)",
        "decision.status",
        (STALE,),
    ),
    Defect(
        "the response to a create is not cached",
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
        "restarts are counted at the loss, not at the start of the next attempt",
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
        "counters do not increase with the attempt",
        "planning/decisions/next_attempt.py",
        "count_attempt(job, failure, decision.status)",
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
        "terminated pods of earlier attempts stay",
        "planning/decisions/stale_pods.py",
        "[pod for pod in job.pods if pod.attempt < job.attempt]",
        "job.stale_pods",
        (CRASHES,),
    ),
    Defect(
        "a finished job keeps its remaining pods",
        "planning/decisions/finished.py",
        "        deletes=delete_all(pod for pod in observed.pods if pod not in kept),\n",
        "        deletes=(),\n",
        (
            "tests/unit/planning/test_scenarios.py",
            CRASHES,
        ),
    ),
    Defect(
        "each pod of a large gang costs a status write",
        "planning/decisions/progress.py",
        "return job.desired_workers <= COUNTED_EXACTLY or 2 * missing <= missed or missing >= 2 * missed",
        "return True",
        ("tests/unit/planning/decisions/test_progress.py",),
    ),
    Defect(
        "an upgrade gives pods of one attempt two drivers",
        "planning/observed.py",
        'driver = self.status.driver if attempt == self.attempt else ""',
        'driver = ""',
        ("tests/unit/planning/test_upgrades.py",),
    ),
    Defect(
        "a new attempt keeps the old driver",
        "planning/observed.py",
        'driver = self.status.driver if attempt == self.attempt else ""',
        "driver = self.status.driver",
        ("tests/unit/planning/test_upgrades.py",),
    ),
    Defect(
        "a worker pod is OOM-killed forever",
        "planning/decisions/loss.py",
        "if faulty is not None and losses.own_fault >= IN_A_ROW:",
        "if faulty is not None and losses.own_fault > IN_A_ROW:",
        ("tests/unit/planning/decisions/test_loss.py",),
    ),
    Defect(
        "a disruption spends the budget of failures",
        "planning/facts/disruptions.py",
        "class_ is FailureClass.INFRASTRUCTURE and reason in REASONS",
        "False",
        ("tests/unit/planning/test_disruptions.py",),
    ),
    Defect(
        "the budget of failures never refills",
        "planning/facts/budgets.py",
        "return 0 if has_trained and committed > budget.checkpoint else budget.failures",
        "return budget.failures",
        ("tests/unit/planning/test_budgets.py",),
    ),
    Defect(
        "the budget of failures refills without a newer checkpoint",
        "planning/facts/budgets.py",
        "return 0 if has_trained and committed > budget.checkpoint else budget.failures",
        "return 0 if has_trained else budget.failures",
        ("tests/unit/planning/test_budgets.py",),
    ),
    Defect(
        "only the last stretch of training refills the budget of failures",
        "planning/amendments/running_time.py",
        "budget.running_seconds + running_stretch(job)",
        "running_stretch(job)",
        ("tests/unit/planning/test_budgets.py",),
    ),
    Defect(
        "lost worker pods are no disruption",
        "planning/decisions/replacement.py",
        "        disruptions=_count_disruption(job),\n",
        "",
        (CRASHES, "tests/unit/planning/test_disruptions.py"),
    ),
    Defect(
        "what the failure policy ignores spends a budget",
        "planning/facts/budgets.py",
        "        return Payer.IGNORED\n",
        "        pass\n",
        (FAILURE_POLICY,),
    ),
    Defect(
        "what the failure policy ignores restarts without a growing backoff",
        "planning/facts/budgets.py",
        "payer in (Payer.DISRUPTION, Payer.IGNORED) and",
        "payer is Payer.DISRUPTION and",
        (FAILURE_POLICY,),
    ),
    Defect(
        "the last rule of the failure policy decides",
        "planning/facts/failure_rules.py",
        "in enumerate(found):",
        "in reversed(list(enumerate(found))):",
        (FAILURE_POLICY,),
    ),
    Defect(
        "a failure without an exit code matches NotIn",
        "planning/facts/failure_rules.py",
        "code is not None and ",
        "",
        (FAILURE_POLICY,),
    ),
    Defect(
        "an attempt counts twice as a disruption",
        "planning/facts/budgets.py",
        "total=known.total + is_disrupted",
        "total=known.total + 2 * is_disrupted",
        (CRASHES,),
    ),
    Defect(
        "a running Ray cluster gets a second token",
        "planning/children.py",
        "child.is_wanted(job) and not (has_started and child.is_random)",
        "child.is_wanted(job)",
        ("tests/unit/planning/test_upgrades.py",),
    ),
    Defect(
        "a job that makes progress loses its attempt after 20 lost workers",
        "planning/facts/worker_losses.py",
        "known if known is not None and known.checkpoint >= newest else",
        "known if known is not None else",
        ("tests/unit/planning/decisions/test_loss.py",),
    ),
    Defect(
        "a new attempt starts with the losses of the last one",
        "planning/attempt_begin.py",
        "        worker_losses=None,\n",
        "",
        ("tests/unit/planning/test_whole_plans.py",),
    ),
    Defect(
        "exit code 0 is success, whatever the driver reported",
        "planning/observed.py",
        "if outcome is None or not outcome.has_succeeded:",
        "if outcome is None:",
        ("tests/unit/planning/decisions/test_success.py",),
    ),
    Defect(
        "a termination message of success counts whatever the exit code",
        "planning/observed.py",
        "return (head is not None and head.exit_code == 0) or (reported is not None and reported.has_succeeded)",
        "return True",
        ("tests/unit/planning/decisions/test_success.py",),
    ),
    Defect(
        "a job trains again when its head vanishes after the driver's last report",
        "planning/observed.py",
        "        return self.reported_outcome\n",
        "        return None\n",
        ("tests/unit/planning/decisions/test_success.py",),
    ),
    Defect(
        "the last report of another attempt counts",
        "planning/observed.py",
        "if progress.attempt != self.attempt or progress.outcome is None:",
        "if progress.outcome is None:",
        ("tests/unit/planning/decisions/test_success.py",),
    ),
    Defect(
        "missing pods are created without checking the status",
        "planning/decisions/uncreated_pods.py",
        "        status=GUARD,\n",
        "",
        (STALE,),
    ),
    Defect(
        "two pods in one slot may stay",
        "planning/decisions/stale_pods.py",
        ", *job.workers.duplicates]",
        "]",
        (STALE,),
    ),
    Defect(
        "a suspended job's workers are deleted with the head",
        "planning/decisions/suspend.py",
        "            return Decision(deletes=delete_all([head]))\n",
        "            return Decision(deletes=delete_all(job.pods))\n",
        (SUSPEND,),
    ),
    Defect(
        "an outdated spec may suspend",
        "planning/decisions/suspend.py",
        "status=status.requiring(Requirement.SAME_SPEC))\n",
        "status=status)\n",
        (SUSPEND,),
    ),
    Defect(
        "a drained head's workers are deleted at once",
        "planning/decisions/loss.py",
        "    elif head.may_still_end(job.now):\n",
        "    elif False:\n",
        (SUSPEND,),
    ),
    Defect(
        "suspended time counts against the deadline",
        "planning/facts/deadlines.py",
        "limit + max(job.status.suspended_seconds, 0)",
        "limit",
        (DEADLINES,),
    ),
    Defect(
        "an expiring limit does not wake the job",
        "planning/amendments/wake.py",
        "    decision = decision.waking(next_due(job))\n",
        "",
        (DEADLINES,),
    ),
    Defect(
        "a finished job's children are deleted before the TTL",
        "planning/decisions/clean_up.py",
        "    if due is None or due > job.now:\n",
        "    if due is None:\n",
        (CLEAN_UP,),
    ),
    Defect(
        "a job is deleted although it has changed meanwhile",
        "controller/executor.py",
        "namespace=key.namespace, uid=uid, version=version)",
        "namespace=key.namespace, uid=uid)",
        ("tests/unit/controller/test_executor.py",),
    ),
    Defect(
        "a job that has not ended is cleaned up",
        "api/status.py",
        "c.type in types and c.is_true)",
        "c.type in types)",
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
        "time in which the driver did not run counts as silence of training",
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
        "the operator's own clock is used",
        "kube/clock.py",
        "        if self._zero is None:\n            return self._wall()\n",
        "        return self._wall()\n",
        ("tests/unit/kube/test_clock.py", SCHEDULES),
    ),
    Defect(
        "nobody waits for a pod that is being deleted",
        "planning/observed.py",
        "if not pod.is_over and not pod.is_out_of_reach(self.now))",
        "if not pod.is_over and not pod.is_deleting)",
        (
            "tests/unit/planning/test_properties.py",
            CRASHES,
        ),
    ),
    Defect(
        "worker pods that the driver has seen are ignored",
        "planning/job.py",
        "self.joined if is_first_group else 0",
        "0",
        ("tests/unit/planning/test_stale_views.py",),
    ),
    Defect(
        "the wait for a pod on a dead node never ends",
        "planning/pod_view.py",
        "return at is not None and now >= at",
        "return False",
        ("tests/unit/planning/test_scenarios.py",),
    ),
    Defect(
        "a pod that is stuck Terminating is listed when something else happens only",
        "planning/amendments/stuck_pods.py",
        "decision.waking(observed.next_stuck)",
        "decision",
        (STUCK, SCHEDULES),
    ),
    Defect(
        "a list of stuck pods is rewritten for each of many pods that end",
        "planning/amendments/stuck_pods.py",
        "if wanted == listed or _is_still_good(wanted, known):",
        "if wanted == listed:",
        (STUCK,),
    ),
    Defect(
        "a pod that was stuck stays listed",
        "planning/amendments/stuck_pods.py",
        "stuck_pods=wanted or None",
        "stuck_pods=wanted or listed",
        (STUCK, SCHEDULES),
    ),
    Defect(
        "every commit gets an event",
        "planning/amendments/commit_events.py",
        "at > job.now:",
        "at > at:",
        ("tests/unit/planning/amendments/test_commit_events.py",),
    ),
    Defect(
        "an incomplete attempt is held forever for a rejected pod",
        "planning/planner.py",
        "    decide_partial_gang,  # an",
        "    # an",
        ("tests/unit/planning/decisions/test_partial_gang.py",),
    ),
    Defect(
        "a rejected child is created again in every pass",
        "planning/amendments/create_backoff.py",
        "    if at <= job.now:\n        return decision\n",
        "    return decision\n",
        ("tests/unit/planning/test_rejections.py",),
    ),
    Defect(
        "an expired limit hides the actual loss",
        "planning/planner.py",
        "    decide_loss,  #",
        "    decide_startup_deadline,\n    decide_loss,  #",
        (ORDER,),
    ),
    Defect(
        "a job that is to be suspended is not stopped by its deadline",
        "planning/planner.py",
        "    decide_active_deadline,  #",
        "    decide_suspend,\n    decide_active_deadline,  #",
        (ORDER,),
    ),
    Defect(
        "a head that succeeded is a loss",
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
        "a lost pod's name is reused",
        "planning/planner.py",
        "    decide_replacement,  #",
        "    decide_uncreated_pods,\n    decide_replacement,  #",
        (ORDER,),
    ),
    Defect(
        "a lost attempt ends twice",
        "planning/planner.py",
        "    decide_next_attempt,  #",
        "    decide_success,\n    decide_next_attempt,  #",
        (ORDER,),
    ),
    Defect(
        "a suspended job starts as if it were new",
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
        "a replacement keeps the terminated worker pods",
        "planning/decisions/replacement.py",
        "        deletes=delete_all(job.workers.lost),\n",
        "",
        (WHOLE,),
    ),
    Defect(
        "a replacement deletes the live workers, too",
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
        "the next attempt keeps the pods of the last",
        "planning/attempt_begin.py",
        "        deletes=delete_all(job.pods),\n",
        "",
        (WHOLE,),
    ),
    Defect(
        "a terminated head pod is deleted with its workers",
        "planning/decisions/finished.py",
        "if pod.role == HEAD and (pod.is_over",
        "if pod.role != HEAD and (pod.is_over",
        (WHOLE,),
    ),
    Defect(
        "running workers are deleted before those that do not run",
        "planning/job.py",
        "(not pod.is_up, pod.slot)",
        "(pod.is_up, pod.slot)",
        (WHOLE,),
    ),
    Defect(
        "more workers are deleted than are surplus",
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
        "an attempt ends on a stale view of its pods",
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
        "a driver's message may name a class that no budget counts",
        "contract/outcome.py",
        "        if kind.policy.exit_code is None:\n",
        "        if False:\n",
        ("tests/unit/contract/test_outcome.py",),
    ),
    Defect(
        "NetworkPolicies from before they were disabled stay",
        "planning/children.py",
        "        is_wanted=lambda job: job.settings.has_network_policies,\n",
        "        is_wanted=lambda job: job.settings.has_network_policies,\n"
        "        may_exist=lambda job: job.settings.has_network_policies,\n",
        (CLEAN_UP,),
    ),
    Defect(
        "an oversized report is sent uncut",
        "contract/report.py",
        "            if len(text) <= LIMIT_BYTES:\n",
        "            if text:\n",
        ("tests/unit/contract/test_report.py",),
    ),
)
