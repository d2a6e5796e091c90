"""Each file of the package has a test at the mirrored path, or a row that says which test has it instead."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "operator" / "railhead"
FILES = sorted(
    str(path.relative_to(PACKAGE).with_suffix(""))
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)
# By the tests that have it: files, or patterns, where the files of a folder are parts of one thing.
TESTED_BY = {
    "tests/api/test_crd_accepts.py": ("api/*",),  # models: their fields become the CRD
    "tests/api/test_client.py": ("client/submit/suspension",),
    "tests/unit/contract/test_answer.py": ("contract/json_values",),
    "tests/unit/driver/train_controller/test_metric_rules.py": ("contract/metric_rule", "contract/numbers"),
    "tests/unit/planning/facts/test_quota.py": ("planning/facts/backoff",),
    "tests/api/test_session.py": ("client/python_api",),
    "tests/api/test_crd_changes.py": ("api/changes",),
    "tests/chart/test_operator.py": ("cli/operator",),
    "tests/local/test_session.py": ("local/supervisor",),
    "tests/ray/test_failures.py": ("driver/pod/worker", "together"),
    "tests/unit/cli/test_main.py": ("cli/cluster_command", "cli/versions"),
    "tests/unit/cli/test_read.py": ("client/explain/summary",),
    "tests/unit/client/cluster/test_kubectl.py": ("client/cluster/child_process",),
    "tests/unit/cli/test_runs.py": ("client/explain/past_run",),
    "tests/unit/cli/test_results.py": ("cli/logs", "client/run/read_archive", "client/run/run_results"),
    "tests/unit/controller/leadership": ("controller/leadership",),
    "tests/unit/controller/report/test_attacks.py": ("pki",),
    "tests/unit/controller/test_definition.py": ("controller/installation",),
    "tests/unit/controller/test_serve.py": ("controller/config", "listener"),
    "tests/unit/controller/test_handlers.py": ("controller/job_pages",),
    "tests/unit/driver/archive/test_archive_layout.py": ("contract/run_folder",),
    "tests/unit/driver/ray/test_nodes.py": ("driver/container/hosts",),
    "tests/unit/driver/head/test_script_process.py": ("driver/script/import_hooks", "driver/site"),
    "tests/unit/driver/storage": (
        "contract/snapshot",
        "driver/storage/*",
        "driver/ray/checkpoint_manager",
        "driver/train_controller/fence_step",
        "driver/fit/acquire_run",
    ),
    "tests/unit/driver/test_before_training.py": ("driver/messages/attempt_errors", "driver/container/run_context"),
    "tests/unit/driver/train_controller/failures/test_post_mortem.py": (
        "driver/train_controller/failures/evidence",
        "driver/rank/pod_report",
        "driver/train_controller/failures/flight_records",
    ),
    "tests/unit/tools/test_cli_schemas.py": ("client/outputs",),
    "tests/unit/gitops/test_health.py": ("api/conditions",),
    "tests/unit/kube/test_client.py": ("kube/pages",),
    "tests/unit/planning/test_children.py": ("kube/kinds", "planning/plan", "planning/child_kinds"),
    "tests/unit/planning/test_scenarios.py": ("resources/known_checkpoints",),
    "tests/unit/planning/test_planner.py": (
        "planning/attempt",
        "planning/job",
        "planning/observed",
        "planning/pod_view",
        "planning/queue_view",
    ),
    "tests/unit/resources/gangs/test_schedulers.py": (
        "resources/gangs/coscheduling",
        "resources/gangs/gang",
        "resources/gangs/in_tree",
        "resources/gangs/volcano",
    ),
    "tests/unit/resources/test_mounts.py": ("contract/job_input", "contract/log_archive", "resources/base"),
    "tests/unit/training/test_training.py": (
        "driver/head/run_attempt",
        "driver/fit/ray_train_parts",
    ),
    "tests/unit/driver/head/test_run_head.py": ("driver/head/threads",),
    "tests/unit/driver/head/test_step_watch.py": ("driver/mailbox/heartbeat",),
    "tests/unit/driver/container/test_session_logs.py": (
        "driver/messages/rank_marks",
        "driver/pod/rank_output",
        "driver/head/rank_stream",
    ),
    "tests/unit/driver/head/test_hang_watch.py": ("driver/train_controller/stacks_step",),
    "tests/unit/driver/mailbox/test_mailbox.py": ("driver/mailbox/values",),
    "tests/unit/driver/train_controller/test_validations_step.py": ("driver/ray/validations",),
    "tests/unit/driver/train_controller/test_shared_storage_step.py": (
        "driver/train_controller/old_processes_step",
        "driver/rank/pod_checks",
    ),
    "tests/unit/driver/train_controller/failures/test_failure_policy.py": (
        "driver/train_controller/failures/ray_exceptions",
    ),
    "tests/unit/driver/evidence/test_evidence.py": ("driver/rank/failure_words",),
    "tests/unit/driver/rank/test_run_rank.py": ("driver/rank/rank_log",),
    "tests/unit/driver/container/test_pod_processes.py": ("driver/container/gpu_count",),
    "tests/unit/driver/pod/test_ray_start.py": ("driver/ray/supported_versions",),
    "tests/unit/driver/container/test_pod_input.py": ("driver/pod/mounted_input",),
    "tests/unit/driver/messages/test_exception_text.py": (
        "driver/messages/log",
        "driver/messages/redaction",
        "driver/messages/printed_error",
    ),
    # In a real browser
    "tests/ui/test_page.py": (
        "client/ui/*_tab",
        "client/ui/*_view",
        "client/ui/grid_scripts",
        "client/ui/job_context",
        "client/ui/look",
        "client/ui/routes",
        "client/ui/row_table",
        "client/ui/run_prompt",
        "client/ui/page_server",
        "client/ui/viewing",
    ),
    "tests/ui/test_command.py": ("cli/ui",),
    "tests/unit/client/ui/test_live_job.py": ("client/ui/shared",),
    "tests/unit/client/ui/test_live_run.py": ("client/ui/page_context",),
    "tests/unit/client/run/test_follow_logs.py": ("client/run/log_reader",),
    "tests/unit/client/run/test_run_files.py": (
        "client/run/process_files",
        "client/run/store_files",
    ),
    "tests/unit/planning/amendments/test_obstacle_conditions.py": (
        "planning/amendments/denied_deletes",
        "planning/amendments/stuck_pods",
        "planning/amendments/next_look",
    ),
    "tests/unit/planning/amendments/test_attempt_list.py": (
        "planning/amendments/count_time",
        "planning/amendments/avoided_node_list",
        "planning/amendments/generation",
    ),
    "tests/unit/planning/facts/test_settlement.py": (
        "planning/facts/backoff",
        "planning/facts/failure_budget",
        "planning/facts/lost_workers",
    ),
    "tests/unit/controller/test_observe.py": ("json_object",),
    "tests/unit/contract/test_text.py": (
        "contract/times",
        "contract/digest",
    ),
}
WITHOUT_CODE = (
    "_version",
    "contract/callbacks",
    "client/exit_codes",
    "client/goals",
    "client/ui/page_source",
    "contract/environment",
    "contract/spent",
    "driver/ray/types",
    "planning/facts/reasons",
)  # names and types
PATTERNS = [*WITHOUT_CODE, *(pattern for row in TESTED_BY.values() for pattern in row)]


def has_mirror(file: str) -> bool:
    folder, _, name = file.rpartition("/")
    return (PROJECT / "tests" / "unit" / folder / f"test_{name.lstrip('_')}.py").exists()


def has_row(file: str) -> bool:
    return any(fnmatch(file, pattern) for pattern in PATTERNS)


def test_a_file_has_a_test_at_the_mirrored_path_or_a_row() -> None:
    untested = [file for file in FILES if not has_mirror(file) and not has_row(file)]
    assert untested == [], "write its test, or name it in TESTED_BY"


def test_the_tests_of_the_rows_exist() -> None:
    assert [test for test in TESTED_BY if not (PROJECT / test).exists()] == []


def test_no_row_is_left_of_a_file_that_is_gone() -> None:
    assert [pattern for pattern in PATTERNS if not any(fnmatch(file, pattern) for file in FILES)] == []
