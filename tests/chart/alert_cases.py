"""For each alert: series that make it fire, the minute in which it fires, and a later one in which it does not.

Series are in promtool's notation, a value a minute: `1x3` is the value 1 four times, `_x3` are three missing values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One firing of an alert.

    Attributes:
        series: the input, as series -> values.
        fires: the first minute in which it fires; it does not one minute before.
        ends: a minute after it has stopped firing.
        labels: those of the alert besides its severity.
        description: as sent.
    """

    alert: str
    series: Mapping[str, str]
    fires: int
    ends: int
    labels: Mapping[str, str]
    description: str


OPS, TEAM = {"namespace": "ops"}, {"namespace": "team"}
_LATE = '{urgency="checkpoint",le="%s"}'
CASES = (
    Case(
        "RailheadOperatorAbsent",
        {
            'railhead_build_info{pod="a",namespace="railhead-system"}': "1x10 stale _x20 1x10",
            'railhead_build_info{pod="imitation",namespace="team"}': "1x60",
        },
        fires=16,
        ends=40,
        labels={"namespace": "railhead-system"},
        description="No pod of the operator has been scraped for 5 minutes. Jobs train on, but lost pods are not "
        "replaced.",
    ),
    Case(
        "RailheadLeaderAbsent",
        {
            'railhead_leader{namespace="ops",pod="a"}': "1x10 0x20 0x10",
            'railhead_leader{namespace="ops",pod="b"}': "0x10 0x20 1x10",
        },
        fires=13,
        ends=33,
        labels=OPS,
        description="No operator in namespace ops has held the Lease for 2 minutes. Jobs train on, but lost pods are "
        "not replaced.",
    ),
    Case(
        "RailheadWatchStale",
        {
            'railhead_watch_age_seconds{resource="pods",namespace="team",pod="a"}': "60x4 180x10 10x10",
            'railhead_watch_age_seconds{resource="pods",namespace="gone",pod="a"}': "999x30",
            'railhead_refused_watches{resource="pods",namespace="gone",pod="a"}': "1x30",
        },
        fires=6,
        ends=17,
        labels={"resource": "pods", **TEAM},
        description="The watch of pods in team has delivered nothing for 3m 0s.",
    ),
    Case(
        "RailheadWatchRefused",
        {'railhead_refused_watches{resource="pods",namespace="team",pod="a"}': "_x4 1x10 stale"},
        fires=9,
        ends=16,
        labels={"resource": "pods", **TEAM},
        description="The API server has refused the watch of pods in team for 5 minutes. The jobs there are not "
        "managed.",
    ),
    Case(
        "RailheadQueueSlow",
        {
            'railhead_queue_oldest_seconds{namespace="ops",pod="a"}': "0x4 90x10 0x10",
            'railhead_queue_oldest_seconds{namespace="ops",pod="b"}': "999x30",
            'railhead_leader{namespace="ops",pod="a"}': "1x30",
            'railhead_leader{namespace="ops",pod="b"}': "0x30",
        },
        fires=10,
        ends=17,
        labels={},
        description="The first job in the leader's queue has waited for 1m 30s.",
    ),
    Case(
        "RailheadLoopLate",
        {'railhead_loop_late_seconds_total{pod="a"}': "1000x10 1030+30x20 1630x20"},
        fires=18,
        ends=40,
        labels={"pod": "a"},
        description="The event loop of pod a was late for 50% of the time.",
    ),
    Case(
        "RailheadReportsLate",
        {
            f"railhead_report_delay_seconds_bucket{_LATE % '30'}": "100x70",
            f"railhead_report_delay_seconds_bucket{_LATE % '100'}": "100x10 110+10x30 410x30",
            f"railhead_report_delay_seconds_bucket{_LATE % '+Inf'}": "100x10 110+10x30 410x30",
        },
        fires=21,
        ends=55,
        labels={},
        description="Of the reports with checkpoints, 1 % take 1m 39s or more until their write in the status.",
    ),
    Case(
        "RailheadPassesFail",
        {
            'railhead_pass_seconds_count{result="error",namespace="ops"}': "1000x10 1030+30x20 1630x20",
            'railhead_pass_seconds_count{result="done",namespace="done"}': "1000+600x50",
        },
        fires=16,
        ends=40,
        labels=OPS,
        description="Passes of the operator in namespace ops fail 0.5 times per second.",
    ),
    Case(
        "RailheadRequestsFail",
        {
            'railhead_api_requests_total{code="429",verb="get",namespace="ops"}': "9x10 39+30x20 639x20",
            'railhead_api_requests_total{code="200",verb="get",namespace="ops"}': "0+600x50",
        },
        fires=16,
        ends=40,
        labels={"code": "429", **OPS},
        description="The API server answers the operator in namespace ops with code 429 0.5 times per second.",
    ),
    Case(
        "RailheadClockOffset",
        {'railhead_clock_offset_seconds{pod="a"}': "-5x4 -40x70 0x10"},
        fires=65,
        ends=77,
        labels={"pod": "a"},
        description="The clock of the node of pod a differs from the API server's by 40s.",
    ),
    Case(
        "RailheadAdmissionPolicyMissing",
        {'railhead_admission_policy_missing{namespace="ops",pod="a"}': "0x4 1x10 0x5"},
        fires=10,
        ends=17,
        labels=OPS,
        description="The policy of the operator in namespace ops is gone. Jobs may use every service account, Secret "
        "and claim of their namespace.",
    ),
    Case(  # the first failure since the operator started: its series is new
        "RailheadJobFailed",
        {
            'railhead_finished_jobs_total{class="Application",namespace="team"}': "_x10 1x40",
            'railhead_finished_jobs_total{class="Succeeded",namespace="team"}': "0+1x50",
        },
        fires=10,
        ends=26,
        labels={"class": "Application", **TEAM},
        description="In namespace team jobs have failed with class Application in the last 15 minutes.",
    ),
    Case(
        "RailheadJobFailed",
        {'railhead_finished_jobs_total{class="Hang",namespace="team"}': "1x30 2x40"},
        fires=31,
        ends=47,
        labels={"class": "Hang", **TEAM},
        description="In namespace team jobs have failed with class Hang in the last 15 minutes.",
    ),
    Case(
        "RailheadJobWithoutProgress",
        {
            'railhead_oldest_progress_seconds{namespace="team",pod="a"}': "600+60x90 10x10",
            'railhead_oldest_progress_seconds{namespace="team",pod="b"}': "600+60x90 10x10",
        },
        fires=56,
        ends=92,
        labels=TEAM,
        description="A running job in namespace team has made no progress for 1h 6m 0s.",
    ),
    Case(
        "RailheadJobPendingLong",
        {'railhead_oldest_pending_seconds{namespace="team",pod="a"}': "0+60x90 10x10"},
        fires=66,
        ends=92,
        labels=TEAM,
        description="A job in namespace team has waited for its pods for 1h 6m 0s.",
    ),
    Case(
        "RailheadJobQueuedLong",
        {'railhead_oldest_queued_seconds{namespace="team",pod="a"}': "86400+60x10 stale"},
        fires=6,
        ends=17,
        labels=TEAM,
        description="A job in namespace team has waited for its queue for 1d 0h 6m 0s.",
    ),
    Case(
        "RailheadEvictionsRepeating",
        {
            'railhead_evictions_total{namespace="team"}': "_x5 11x600",
            'railhead_evictions_total{namespace="few"}': "_x5 10x600",
        },
        fires=10,
        ends=366,
        labels=TEAM,
        description="The queue has evicted jobs in namespace team 11 times in the last 6 hours.",
    ),
    Case(
        "RailheadQueueUnreachable",
        {'railhead_job_conditions{condition="QueueUnreachable",namespace="team"}': "_x5 2x10 stale"},
        fires=10,
        ends=17,
        labels=TEAM,
        description="Kueue and 2 jobs in namespace team do not learn of each other.",
    ),
    Case(
        "RailheadGoodputLow",
        {
            'railhead_training_seconds_total{cause="productive",namespace="team"}': "0+30x120 3660+60x200",
            'railhead_training_seconds_total{cause="retrained",namespace="team"}': "0+30x120 3600x200",
            'railhead_training_seconds_total{cause="suspended",namespace="team"}': "0+600x320",
            'railhead_training_seconds_total{cause="queued",namespace="team"}': "0+600x320",
        },
        fires=91,
        ends=210,
        labels=TEAM,
        description="Jobs in namespace team have lost 50% of their time in the last 6 hours.",
    ),
    Case(
        "RailheadRestartsRepeating",
        {
            'railhead_restarts_total{class="infrastructure",namespace="team"}': "_x5 11x100",
            'railhead_restarts_total{class="application",namespace="team"}': "_x5 10x100",
        },
        fires=10,
        ends=66,
        labels={"class": "infrastructure", **TEAM},
        description="Jobs in namespace team have restarted 11 times in the last hour, class infrastructure.",
    ),
    Case(
        "RailheadNodesAvoided",
        {'railhead_avoided_nodes{namespace="ops",pod="a"}': "5x4 6x10 0x5"},
        fires=10,
        ends=17,
        labels=OPS,
        description="Jobs of the operator in namespace ops avoid 6 nodes.",
    ),
    Case(
        "RailheadStorageUnavailable",
        {'railhead_job_conditions{condition="StorageUnavailable",namespace="team"}': "_x5 2x10 stale"},
        fires=10,
        ends=17,
        labels=TEAM,
        description="The storage takes no checkpoints of 2 jobs in namespace team.",
    ),
    Case(
        "RailheadHangSuspected",
        {'railhead_job_conditions{condition="HangSuspected",namespace="team"}': "_x5 1x10 stale"},
        fires=7,
        ends=17,
        labels=TEAM,
        description="No rank makes a step in 1 jobs in namespace team.",
    ),
)
