#!/usr/bin/env python3
"""Checks rules that a compiler does not: allowed includes, third-party headers, mirrored tests, file length.

docs/development/architecture.md describes the components. The tables here define what each of them may include.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 600

# The longest prefix of a file's path determines its component. Each entry lists the files of this project that the
# component may include. A component may always include its own files.
# The launcher's stages stand in the order of the data. They form three wings: see src/launcher/README.md.
WINGS = {
    "start": ["causes", "log", "facts", "cli", "plan", "doctor"],
    "run": ["process", "output", "stacks", "ranks", "watchdog", "job", "remote"],
    "see": ["view", "report", "explain", "top", "store_command"],
}
LAUNCHER = [f"launcher/{wing}/{stage}" for wing, stages in WINGS.items() for stage in stages]
COMPONENTS = {
    "base": ["ddp/error.h", "ddp/version.h"],
    "wire": ["base"],
    "net": ["base"],
    "store": ["base", "wire", "net", "ddp/store.h", "ddp/error.h"],  # the parts that several of its components need
    **{component: ["base", "wire", "net", "store/limits.h", "store/handshake.h", "store/key_names.h", "ddp/store.h",
              "ddp/error.h"] for component in ("store/server", "store/client", "store/local")},
    # Each stage of the launcher may include the previous ones.
    **{component: ["base", "wire", "net", "store", "launcher/limits.h", "ddp/version.h", *LAUNCHER[:i]]
       for i, component in enumerate(LAUNCHER)},
    "launcher/start/cli": ["base", "wire", "net", "store", "launcher/limits.h", "ddp/version.h", "launcher/start/causes", "launcher/start/log", "launcher/start/facts", "bench/bench_options.h"],
    # The workers of the doctor meet in the store.
    "launcher/start/doctor": ["base", "wire", "net", "store", "ddp/version.h", "ddp/store.h", "ddp/error.h",
                              "launcher/limits.h", *LAUNCHER[:5]],
    "launcher": ["base", "net", "wire/worker_env.h", "wire/control_message.h", "wire/json_fields.h", "ddp/version.h", *LAUNCHER],
    "stack_reader": ["base", "launcher/run/stacks"],
    "gpu_reader": ["base", "launcher/run/process"],
    "torch_reader": ["base", "wire"],
    "call_times": ["wire/call_times_layout.h"],  # it is loaded into any Python
    "nccl_profiler": ["base/hash.h", "wire"],  # NCCL loads it into any program
    "main.cpp": ["launcher/commands.h"],
    # These are the runtime's layers, from the lowest on.
    "runtime/call": ["base", "wire", "ddp"],
    "runtime/reduction": ["base", "ddp", "runtime/call"],
    "runtime/progress": ["base", "wire", "ddp", "runtime/call"],
    "runtime/peers": ["base", "runtime/limits.h", "ddp", "runtime/call", "runtime/reduction", "runtime/progress"],
    "runtime/backend": ["base", "runtime/limits.h", "wire", "net", "ddp", "runtime/call", "runtime/reduction", "runtime/peers",
                        "runtime/progress/state_gate.h"],
    "runtime/group": ["base", "runtime/limits.h", "wire", "ddp", "runtime/call", "runtime/progress", "runtime/peers",
                      "runtime/backend/backend.h", "runtime/backend/backend_errors.h"],
    "runtime/ddp": ["base", "runtime/limits.h", "ddp", "runtime/call", "runtime/reduction", "runtime/progress", "runtime/group",
                    "runtime/backend/backend.h", "runtime/backend/gpu_math.h"],
    # The hooks use only the public functions, like those of a program, and nothing may include them. Their mathematics
    # is the exception.
    "runtime/ddp/hooks": ["ddp", "runtime/ddp/hooks/compression_math.h"],
    "runtime/ddp/hooks/compression_math.h": ["ddp", "runtime/ddp/element_math.h"],
    "runtime/ddp/hooks/compression_math.cpp": ["base", "runtime/backend/gpu_math.h", "runtime/ddp/hooks/compression_math.h"],
    "runtime/data": ["base", "runtime/limits.h", "ddp", "runtime/call", "runtime/group"],
    "runtime/checkpoint": ["base", "runtime/limits.h", "wire", "ddp", "runtime/call", "runtime/group", "runtime/progress/state_gate.h",
                           "runtime/backend/backend.h"],
    "runtime": [],  # contains only limits.h
    "runtime/init": ["base", "runtime/limits.h", "wire", "net", "store", "ddp", *[f"runtime/{layer}" for layer in (
        "call", "progress", "peers", "backend", "group")]],
    "runtime/c": ["runtime/limits.h", "ddp"],  # uses only the public functions, like any program
    "libtorch": ["ddp"],
    "bench": ["ddp", "base/duration.h"],
    "ddp": [],
}

# Maps third-party headers (by prefix) to the only files that may include them.
THIRD_PARTIES = {
    "CLI/": ["launcher/start/cli/option_set.cpp", "launcher/start/cli/config_file.cpp", "launcher/start/cli/job_options.cpp", "bench/bench_options.cpp"],
    "spdlog/": ["launcher/start/log/log.cpp"],
    "boost/asio": ["net/event_loop.cpp", "net/event_loop_asio.h", "launcher/run/process/clone_launcher.h",
                   "launcher/run/process/helper.cpp"],
    "boost/process": ["launcher/run/process/clone_launcher.h"],
    "zlib.h": ["launcher/see/report/open_document.cpp", "launcher/see/report/report_file.cpp"],
    "boost/crc": ["wire/state_file.cpp"],
    "boost/describe": ["wire/json_fields.h"],
    "boost/mp11": ["wire/json_fields.h"],
    "hwloc": ["launcher/start/facts/cpu_topology.cpp"],
    "sodium": ["store/store_token.cpp"],
    "elfutils/": ["stack_reader/frame_names.cpp", "stack_reader/process_files.cpp", "stack_reader/unwinder.cpp"],
    "nlohmann/": ["launcher/start/cli/config_file.cpp", "launcher/start/plan/describe.cpp", "launcher/start/plan/worker_variables.cpp", "launcher/see/explain/plain_value.cpp",
                  "launcher/run/job/error_record.cpp",
                  "launcher/run/ranks/hang_trace.cpp", "launcher/run/stacks/stack_capture.cpp",
                  "launcher/run/stacks/stack_text.cpp", "stack_reader/main.cpp", "torch_reader/recording.cpp",
                  "launcher/see/report/job_json.cpp",
                  "launcher/run/watchdog/evidence/ras_status.cpp",
                  "wire/control_message.cpp", "wire/json_fields.h",
                  "launcher/see/report/history_json.cpp", "launcher/see/report/history_json.h", "launcher/see/report/report_data.cpp",
                  "launcher/run/remote/launch_request.cpp", "launcher/run/remote/host_plan.cpp",
                  "launcher/see/store_command/inspection.cpp", "launcher/see/explain/explanation_text.cpp", "launcher/see/explain/log_inputs.cpp", "launcher/see/view/json_fields.h",
                  "launcher/see/top/view_protocol.cpp", "runtime/progress/error_file.cpp",
                  "runtime/checkpoint/kept_state.cpp",
                  "runtime/checkpoint/manifest.cpp", "runtime/checkpoint/on_rank_zero.cpp",
                  "runtime/checkpoint/safetensors.cpp", "runtime/checkpoint/shard_exchange.cpp",
                  "runtime/checkpoint/state_keeper.cpp"],
    "gloo/": [f"runtime/backend/gloo/{name}" for name in ("gloo_context.cpp", "gloo_watch.h", "gloo_watch.cpp")],
    "nccl.h": [],  # loaded at run time, as the driver: docs/development/decisions/0015
    "cuda": [],
    "mpi.h": ["runtime/backend/mpi/mpi_plugin.cpp"],
    "torch/": ["libtorch/distributed_data_parallel.cpp", "libtorch/collectives.cpp", "libtorch/gpu_streams.cpp",
               "ddp/libtorch.h"],
    "c10/": ["libtorch/gpu_streams.cpp", "libtorch/gpu_streams.h"],
}

# Maps sources without a unit test of the same name to the tests that cover them.
TESTED_ELSEWHERE = {
    "launcher/run/job/coordinator_client.cpp": "integration/nodes_test.py",
    "launcher/run/job/job_driver.cpp": "simulation/nodes_simulation_test.cpp",
    "launcher/see/explain/explain_command.cpp": "integration/explain_test.py",
    "launcher/see/explain/explanation_text.cpp": "unit/launcher/see/explain/explanation_test.cpp",
    "launcher/see/explain/log_stream.cpp": "unit/launcher/see/explain/log_reader_test.cpp",
    "launcher/start/causes/causes_clusters.cpp": "unit/launcher/start/causes/cause_table_test.cpp",
    "launcher/start/causes/causes_communication.cpp": "unit/launcher/start/causes/cause_table_test.cpp",
    "launcher/start/causes/causes_data.cpp": "unit/launcher/start/causes/cause_table_test.cpp",
    "launcher/start/causes/causes_data_parallel.cpp": "unit/launcher/start/causes/cause_table_test.cpp",
    "launcher/start/causes/causes_programs.cpp": "unit/launcher/start/causes/cause_table_test.cpp",
    "torch_reader/main.cpp": "integration/torch_recorder_test.py",
    "call_times/call_times.cpp": "interop/torch_trace_test.py",
    "wire/record_writer.cpp": "unit/runtime/progress/record_ring_test.cpp",
    "launcher/run/watchdog/evidence/ras_watch.cpp": "integration/ras_test.py",
    "launcher/run/ranks/stack_watch.cpp": "interop/torch_hang_test.py",
    "launcher/run/ranks/torch_watch.cpp": "integration/torch_recorder_test.py",
    "launcher/see/explain/hang_text.cpp": "unit/launcher/see/explain/hang_records_test.cpp",
    "launcher/start/doctor/cuda_driver.cpp": "unit/launcher/start/doctor/peer_proof_test.cpp",
    "launcher/start/doctor/gpu_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/known_variables.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/limit_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/machine_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/network_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/node.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/program_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/setting_checks.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/check_nodes.cpp": "integration/doctor_nodes_test.py",
    "launcher/start/doctor/between/facts_to_compare.cpp": "unit/launcher/start/doctor/checks_test.cpp",
    "launcher/start/doctor/between/node_worker.cpp": "integration/doctor_nodes_test.py",
    "launcher/start/doctor/between/probe_path.cpp": "unit/launcher/start/doctor/between/probe_server_test.cpp",
    "launcher/start/facts/no_udev.cpp": "unit/launcher/start/facts/cpu_topology_test.cpp",
    "launcher/run/job/coordinator_server.cpp": "integration/nodes_test.py",
    "launcher/see/top/terminal.cpp": "integration/top_test.py",
    "launcher/see/top/top_screen.cpp": "integration/top_test.py",
    "launcher/see/top/view_client.cpp": "unit/launcher/see/top/view_server_test.cpp",
    "launcher/run/watchdog/verdict_text.cpp": "unit/launcher/see/report/hang_report_test.cpp",
    "launcher/run/remote/host_job.cpp": "integration/ssh_hosts_test.py",
    "launcher/run/remote/controller_facts.cpp": "integration/ssh_hosts_test.py",
    "main.cpp": "integration/launch_test.cpp",
    "base/check.cpp": "it aborts; every DDP_CHECK runs it",
    "base/error.cpp": "unit/runtime",
    "launcher/commands.cpp": "integration/launch_test.cpp",
    "launcher/launch.cpp": "integration/launch_test.cpp",
    "launcher/job_views.cpp": "integration/views_test.py",
    "launcher/see/report/add_to_reports.cpp": "integration/gpu_hang_test.py",
    "launcher/see/report/job_reporter.cpp": "integration/launch_test.cpp",
    "stack_reader/main.cpp": "integration/stacks_test.py",
    "stack_reader/process_files.cpp": "unit/stack_reader/frame_names_test.cpp",
    "gpu_reader/main.cpp": "integration/gpu_counters_test.py",
    "gpu_reader/nvml.cpp": "integration/gpu_counters_test.py",
    "launcher/see/report/html/html_comparison.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_course.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_strips.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_tables.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_training.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_verdict.cpp": "unit/launcher/see/report/html/html_report_test.cpp",
    "launcher/see/report/html/html_script.cpp": "integration/report_test.py",
    "launcher/see/report/html/html_style.cpp": "integration/report_test.py",
    "launcher/start/plan/worker_variables.cpp": "unit/launcher/run/process/worker_environment_test.cpp",
    "launcher/start/log/file_output.cpp": "unit/launcher/see/report/report_file_test.cpp",
    "launcher/run/ranks/activity_watch.cpp": "integration/hang_test.py",
    "launcher/run/job/worker_group.cpp": "integration/launch_test.cpp",
    "store/server/served_client.cpp": "unit/store/server/store_server_test.cpp",
    "store/server/store_ranks.cpp": "unit/store/server/store_requests_test.cpp",
    "store/local/table_store.cpp": "unit/store/store_contract_test.cpp",
    "store/store.cpp": "unit/store/store_contract_test.cpp",
    "runtime/group/group_core.cpp": "unit/runtime/group/process_group_test.cpp",
    "runtime/reduction/kernels_avx2.cpp": "unit/runtime/reduction/reduction_test.cpp",
    "runtime/reduction/kernels_portable.cpp": "unit/runtime/reduction/reduction_test.cpp",
    "runtime/backend/backend.cpp": "unit/runtime/ddp/reducer_test.cpp",
    "runtime/checkpoint/shard_exchange.cpp": "unit/runtime/checkpoint/checkpoint_manager_test.cpp",
    "runtime/checkpoint/kept_state.cpp": "integration/lost_ranks_test.py",
    "runtime/checkpoint/on_rank_zero.cpp": "unit/runtime/checkpoint/checkpoint_manager_test.cpp",
    "runtime/ddp/mean_hook.cpp": "unit/runtime/ddp/reducer_test.cpp",
    "runtime/ddp/data_parallel_engine.cpp": "unit/runtime/ddp/distributed_data_parallel_test.cpp",
    "runtime/ddp/framework_adapter.cpp": "interop/torch_module.cpp",
    "runtime/ddp/model_exchange.cpp": "unit/runtime/ddp/distributed_data_parallel_test.cpp",
    "bench/collective_bench.cpp": "integration/bench_test.py",
    "bench/bench_options.cpp": "unit/launcher/start/cli/bench_options_test.cpp",
    "runtime/group/group_runner.cpp": "unit/runtime/group/process_group_test.cpp",
    "runtime/backend/cpu/cpu_backend.cpp": "unit/runtime/group/collectives_test.cpp",
    "runtime/peers/mismatch_check.cpp": "unit/runtime/group/process_group_test.cpp",
    "runtime/backend/cpu/nodes.cpp": "unit/runtime/group/collectives_test.cpp",
    "runtime/backend/cpu/staged.cpp": "unit/runtime/group/collectives_test.cpp",
    "runtime/backend/gloo/gloo_backend.cpp": "unit/runtime/group/collectives_test.cpp",
    "runtime/backend/gloo/gloo_context.cpp": "integration/collective_kill_test.py",
    "runtime/backend/gloo/gloo_watch.cpp": "integration/collective_kill_test.py",
    "runtime/backend/plugin.cpp": "integration/train_test.cpp",
    "runtime/backend/nccl/cuda_api.cpp": "unit/runtime/backend/nccl/nccl_api_test.cpp",
    "runtime/backend/mpi/mpi_plugin.cpp": "integration/mpi_test.sh",
    "runtime/c/memory.cpp": "unit/runtime/c/groups_test.cpp",
    "libtorch/collectives.cpp": "interop/torch_module.cpp",
    "libtorch/distributed_data_parallel.cpp": "interop",
    "libtorch/gpu_streams.cpp": "interop/torch_gpu_module.cpp",
}


def files(*folders: str) -> list[pathlib.Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".c", ".cpp", ".cu", ".cuh"))


def component_of(name: str) -> str:
    return max((component for component in COMPONENTS if name == component or name.startswith(component + "/")), key=len, default="")


def check_includes(name: str, text: str) -> list[str]:
    """Checks the includes of one file. `name` is relative to src/ or, for public headers, to include/."""
    faults = []
    component = component_of(name)
    if not component:
        return [f"{name}: lies in no component; see COMPONENTS in scripts/layers.py"]
    for included in re.findall(r'^\s*#\s*include\s+[<"]([^">]+)[">]', text, re.MULTILINE):
        owners = next((owners for prefix, owners in THIRD_PARTIES.items() if included.startswith(prefix)), None)
        if owners is not None:
            if name not in owners:
                faults.append(f"{name}: includes {included}; only {', '.join(owners)} may")
            continue
        target = component_of(included)
        if ".." in included:
            faults.append(f"{name}: includes {included}; paths begin at src/ or include/")
        if not target or target == component:
            continue
        if not any(included == seen or target == seen or included.startswith(seen + "/") for seen in COMPONENTS[component]):
            faults.append(f"{name}: component {component} may not include {included}")
    return faults


def types_of(text: str) -> set[str]:
    """Returns the types that a header defines, with their namespace."""
    namespace, types = "", set()
    for line in text.splitlines():
        if match := re.match(r"namespace ([\w:]+) \{", line):
            namespace = match[1]
        elif match := re.match(r"(?:struct|class|enum class) (?:\[\[\w+\]\] |DDP_\w+ )?(\w+)(?: final)?(?: : [\w:<> ]+)?(?: \{|$)", line):
            types.add(f"{namespace}::{match[1]}")
    return types


def check_types() -> list[str]:
    """Two types of one name and namespace would be one type for the linker, which reports nothing."""
    owners: dict[str, str] = {}
    faults = []
    for path in files("src", "include"):
        if path.suffix != ".h":
            continue
        for name in sorted(types_of(path.read_text())):
            first = owners.setdefault(name, str(path.relative_to(ROOT)))
            if first != str(path.relative_to(ROOT)):
                faults.append(f"{path.relative_to(ROOT)}: defines {name}, and so does {first}")
    return faults


def check_index() -> list[str]:
    """scripts/README.md names all scripts, and no others."""
    listed = set(re.findall(r"^\| `([^`/]+)/?`", (ROOT / "scripts/README.md").read_text(), re.MULTILINE))
    present = {path.name for path in (ROOT / "scripts").iterdir()} - {"README.md", "__pycache__"}
    return [f"scripts/README.md: it lists {name}, which is missing, or lacks it" for name in sorted(listed ^ present)]


def main() -> int:
    faults = check_types() + check_index()
    for path in files("src"):
        name = str(path.relative_to(ROOT / "src"))
        faults += check_includes(name, path.read_text())
        mirrored = ROOT / "tests/unit" / (name.removesuffix(".cpp") + "_test.cpp")
        if path.suffix == ".cpp" and not mirrored.exists() and name not in TESTED_ELSEWHERE:
            faults.append(f"src/{name}: has no {mirrored.relative_to(ROOT)} and no line in TESTED_ELSEWHERE")
    for path in files("include"):
        faults += check_includes(str(path.relative_to(ROOT / "include")), path.read_text())
    for path in files("src", "include", "tests", "examples"):
        lines = path.read_text().count("\n")
        if lines > MAX_LINES:
            faults.append(f"{path.relative_to(ROOT)}: {lines} lines (at most {MAX_LINES}: one idea a file)")
    print("\n".join(faults) if faults else "layers: every file is in its layer")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
