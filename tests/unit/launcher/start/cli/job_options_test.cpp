#include "launcher/start/cli/job_options.h"

#include <algorithm>
#include <csignal>
#include <functional>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

base::Result<Options> make(const Pairs& pairs, CompatibilityMode mode = CompatibilityMode::native) {
  Options options = default_options(mode);
  OptionSet set(true);
  declare_job_options(set, options);
  std::vector<Setting> settings;
  for (const auto& [name, value] : pairs) {
    settings.push_back({find_option(name, set.options()), value, "--" + name + "=" + value});
  }
  if (const auto wrong = set.parse(settings, {})) return base::Failure{*wrong};
  if (const auto wrong = check_together(settings, options)) return base::Failure{*wrong};
  return options;
}

Options options(const Pairs& pairs, CompatibilityMode mode = CompatibilityMode::native) {
  auto result = make(pairs, mode);
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

std::string mistake(const Pairs& pairs, CompatibilityMode mode = CompatibilityMode::native) {
  const auto result = make(pairs, mode);
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

struct Row {
  std::string option;
  std::string value;
  std::function<bool(const Options&)> arrived;
};

const std::vector<Row> kRows = {
    {"nproc-per-node", "2", [](const Options& o) { return o.nproc_per_node == 2; }},
    {"nproc-per-node", "gpu", [](const Options& o) { return o.nproc_per_node == WorkerCount::By::gpus; }},
    {"nnodes", "2:3", [](const Options& o) { return o.min_nodes == 2 && o.max_nodes == 3; }},
    {"node-rank", "1", [](const Options& o) { return o.node_rank == 1; }},
    {"role", "trainer", [](const Options& o) { return o.role == "trainer"; }},
    {"hosts", "a,b:4",
     [](const Options& o) {
       return o.hosts == std::vector<HostEntry>{{"a", std::nullopt}, {"b", 4}};
     }},
    {"hostfile", "f", [](const Options& o) { return o.host_file == "f"; }},
    {"ssh", "ssh -p 22", [](const Options& o) { return o.ssh == "ssh -p 22"; }},
    {"remote-launcher", "/d", [](const Options& o) { return o.remote_launcher == "/d"; }},
    {"forward-env", "A,B*,C=3",
     [](const Options& o) {
       return o.forwarded == std::vector<std::string>{"A", "B*", "C=3"};
     }},
    {"module", "1", [](const Options& o) { return o.module; }},
    {"no-python", "1", [](const Options& o) { return o.no_python; }},
    {"run-path", "1", [](const Options& o) { return o.run_path; }},
    {"use-env", "1", [](const Options& o) { return o.warnings.size() == 1; }},
    {"start-method", "fork", [](const Options& o) { return o.warnings.size() == 1; }},
    {"preload", "torch", [](const Options& o) { return o.preload == "torch"; }},
    {"stdin", "0", [](const Options& o) { return o.stdin_local_rank == 0; }},
    {"standalone", "1", [](const Options& o) { return o.standalone; }},
    {"rdzv-backend", "c10d", [](const Options& o) { return o.rdzv_backend == RdzvBackend::c10d; }},
    {"rdzv-endpoint", "a:1", [](const Options& o) { return o.rdzv_endpoint == "a:1"; }},
    {"rdzv-id", "7", [](const Options& o) { return o.run_id == "7"; }},
    {"rdzv-conf", "is_host=1", [](const Options& o) { return o.rdzv_conf.at("is_host") == "1"; }},
    {"master-addr", "a", [](const Options& o) { return o.master_addr == "a"; }},
    {"master-port", "65535", [](const Options& o) { return o.master_port == 65'535; }},
    {"local-addr", "b", [](const Options& o) { return o.local_addr == "b"; }},
    {"auth-token-file", "/t", [](const Options& o) { return o.auth_token_file == "/t"; }},
    {"store-open", "1", [](const Options& o) { return o.store_open; }},
    {"store-limit", "keys=7,value-bytes=1KiB",
     [](const Options& o) { return o.store_limits.keys == 7 && o.store_limits.value_bytes == 1024; }},
    {"gpus", "0,3", [](const Options& o) { return o.gpus == "0,3"; }},
    {"device-visibility", "all", [](const Options& o) { return o.device_visibility == DeviceVisibility::all; }},
    {"virtual-local-rank", "1", [](const Options& o) { return o.virtual_local_rank; }},
    {"oversubscribe", "1", [](const Options& o) { return o.oversubscribe; }},
    {"numa-binding", "core-complex", [](const Options& o) { return o.numa_binding == NumaBinding::core_complex; }},
    {"backend", "gloo", [](const Options& o) { return o.backend == "gloo"; }},
    {"backend", "nccl,gloo", [](const Options& o) { return o.backend == "nccl,gloo"; }},
    {"max-restarts", "3", [](const Options& o) { return o.max_restarts == 3; }},
    {"image-cost", "0.5%", [](const Options& o) { return o.image_cost == 0.005 && o.warnings.size() == 1; }},
    {"image-dir", "/a/../images", [](const Options& o) { return o.image_dir == "/images"; }},
    {"grace", "0.5", [](const Options& o) { return o.grace == 500ms; }},
    {"save-grace", "60", [](const Options& o) { return o.save_grace == 60s; }},
    {"save-signals", "USR2", [](const Options& o) { return o.save_signals == std::vector{SIGUSR2}; }},
    {"save-file", "f", [](const Options& o) { return o.save_file == "f" && o.warnings.size() == 1; }},
    {"save-command", "c d", [](const Options& o) { return o.save_command == "c d" && o.warnings.size() == 1; }},
    {"let-finish", "1", [](const Options& o) { return o.let_finish; }},
    {"exit-timeout", "9", [](const Options& o) { return o.exit_timeout == 9s; }},
    {"scheduler", "slurm", [](const Options& o) { return o.scheduler == "slurm"; }},
    {"node-timeout", "3.5", [](const Options& o) { return o.node_timeout == 3500ms; }},
    {"witness", "/shared/w", [](const Options& o) { return o.witness == "/shared/w"; }},
    {"hang-timeout", "90", [](const Options& o) { return o.hang_timeout == 90s; }},
    {"fallback", "1", [](const Options& o) { return o.fallback; }},
    {"check", "deep", [](const Options& o) { return o.check == Check::deep; }},
    {"hang-limit", "learnt", [](const Options& o) { return o.hang_limit == HangLimit::learnt; }},
    {"hang-action", "warn", [](const Options& o) { return o.hang_action == HangAction::warn; }},
    {"hang-action", "dump", [](const Options& o) { return o.hang_action == HangAction::dump; }},
    {"inject", "rank=0,at=any,kind=stop", [](const Options& o) { return o.faults.size() == 1; }},
    {"signals-to-handle", "INT", [](const Options& o) { return o.ending_signals == std::vector{SIGINT}; }},
    {"core", "off", [](const Options& o) { return o.core == CoreDumps::off; }},
    {"monitor-interval", "0.1", [](const Options& o) { return o.warnings.size() == 1; }},
    {"log-dir", "/l", [](const Options& o) { return o.log_dir == "/l"; }},
    {"redirects", "1", [](const Options& o) { return o.redirects.all == 1; }},
    {"tee", "12:3", [](const Options& o) { return o.tee.of(12) == 3; }},
    {"local-ranks-filter", "1", [](const Options& o) { return o.console_local_ranks == std::vector{1}; }},
    {"duplicate-stdout-filters", "a", [](const Options& o) { return o.stdout_filters.at(0) == "a"; }},
    {"duplicate-stderr-filters", "b", [](const Options& o) { return o.stderr_filters.at(0) == "b"; }},
    {"tag", "", [](const Options& o) { return o.tag == ""; }},
    {"collapse", "0", [](const Options& o) { return o.collapse == false; }},
    {"collapse", "1", [](const Options& o) { return o.collapse == true; }},
    {"gather-output", "1", [](const Options& o) { return o.gather_output; }},
    {"lossless", "1", [](const Options& o) { return o.lossless; }},
    {"on-sigpipe", "end", [](const Options& o) { return o.end_on_closed_console; }},
    {"color", "never", [](const Options& o) { return o.color == Color::never; }},
    {"summary", "s", [](const Options& o) { return o.summary_file == "s"; }},
    {"event-log", "e", [](const Options& o) { return o.event_log == "e"; }},
    {"live", "1", [](const Options& o) { return o.live; }},
    {"progress-line", "1", [](const Options& o) { return o.progress_line == true; }},
    {"progress-line", "0", [](const Options& o) { return o.progress_line == false; }},
    {"report", "r.html", [](const Options& o) { return o.report_file == "r.html"; }},
    {"trace", "t.json", [](const Options& o) { return o.trace_file == "t.json"; }},
    {"record", "all", [](const Options& o) { return o.recording == Recording::all; }},
    {"event-log-handler", "console", [](const Options& o) { return o.warnings.size() == 1; }},
    {"quiet", "1", [](const Options& o) { return o.log.level == LogLevel::warning; }},
    {"verbose", "1", [](const Options& o) { return o.log.level == LogLevel::debug; }},
    {"log-level", "trace", [](const Options& o) { return o.log.level == LogLevel::trace; }},
    {"launcher-log", "l", [](const Options& o) { return o.log.file == "l"; }},
    {"dry-run", "1", [](const Options& o) { return o.dry_run; }},
};

}  // namespace

TEST_CASE("each option changes the Options or is listed with the reason why it does not") {
  for (const Row& row : kRows) {
    CAPTURE(row.option, row.value);
    CHECK(row.arrived(options({{row.option, row.value}})));
  }
  const auto tested = [](std::string_view name) {
    return std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) { return row.option == name; });
  };
  for (const OptionInfo& option : job_options()) {
    CAPTURE(option.name());
    // json needs dry-run, and logs-specs is always refused. Both have their own tests.
    const bool elsewhere = option.name() == "json" || option.name() == "logs-specs";
    CHECK((!option.in_files || elsewhere || tested(option.name())));
  }
}

TEST_CASE("each invalid value is rejected with a message that begins with its source") {
  const Pairs wrong = {
      {"nproc-per-node", "x"},
      {"nproc-per-node", "0"},
      {"nproc-per-node", ""},
      {"nnodes", "0"},
      {"node-rank", "-1"},
      {"role", ""},
      {"start-method", "thread"},
      {"preload", "torch,"},
      {"stdin", "x"},
      {"rdzv-backend", "zookeeper"},
      {"rdzv-endpoint", ":"},
      {"rdzv-id", ""},
      {"rdzv-id", "a/b"},
      {"rdzv-conf", "x"},
      {"master-addr", ""},
      {"master-port", "65536"},
      {"local-addr", ""},
      {"auth-token-file", ""},
      {"store-limit", "keys=0"},
      {"store-limit", ""},
      {"device-visibility", "one"},
      {"numa-binding", "cpu"},
      {"backend", "ncll"},
      {"backend", "nccl,"},
      {"max-restarts", "-1"},
      {"grace", "soon"},
      {"exit-timeout", "-1"},
      {"node-timeout", "2"},
      {"witness", ""},
      {"scheduler", "steam"},
      {"node-timeout", "soon"},
      {"hang-timeout", "never"},
      {"check", "thorough"},
      {"hang-limit", "30"},
      {"hang-action", "wait"},
      {"inject", "rank=0,at=any,kind=explode"},
      {"hosts", ""},
      {"hosts", "a,,b"},
      {"hosts", "a:0"},
      {"hostfile", ""},
      {"ssh", " "},
      {"remote-launcher", ""},
      {"forward-env", "A,,B"},
      {"forward-env", "*A"},
      {"forward-env", "A*=1"},
      {"signals-to-handle", ""},
      {"core", "big"},
      {"monitor-interval", "x"},
      {"log-dir", ""},
      {"redirects", "4"},
      {"tee", "x"},
      {"local-ranks-filter", "x"},
      {"duplicate-stdout-filters", ","},
      {"duplicate-stderr-filters", ","},
      {"tag", "${x}"},
      {"on-sigpipe", "die"},
      {"color", "blue"},
      {"logs-specs", "mine"},
      {"summary", ""},
      {"event-log", ""},
      {"event-log-handler", "syslog"},
  };
  for (const auto& [name, value] : wrong) {
    CAPTURE(name, value);
    const std::string message = mistake({{name, value}});
    CHECK(message.starts_with("--" + name + "=" + value));
    CHECK(message.ends_with('.'));
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("error messages about options say what to do") {
  CHECK(mistake({{"backend", "ncll"}}) ==
        "--backend=ncll is not known. Use cpu, gloo, nccl or mpi, or several, joined by commas.");
  CHECK(mistake({{"nproc-per-node", "x"}}) == "--nproc-per-node=x is not a number from 1 to 4096, auto, gpu or cpu.");
  CHECK(mistake({{"master-port", "x"}}) == "--master-port=x is not a number from 0 to 65535.");
  CHECK(mistake({{"log-dir", ""}}) == "--log-dir= is empty. Name a directory.");
  CHECK(mistake({{"rdzv-backend", "etcd-v2"}}).find("etcd server") != std::string::npos);
  CHECK(mistake({{"rdzv-backend", "etcd"}}).ends_with("Use c10d."));
  CHECK(mistake({{"logs-specs", "x"}}).find("Use --log-dir, --redirects") != std::string::npos);
}

TEST_CASE("the last setting of an option wins, and overridden settings are not validated") {
  CHECK(options({{"grace", "soon"}, {"quiet", "1"}, {"grace", "3"}}).grace == 3s);
  CHECK(options({{"quiet", "1"}, {"quiet", "0"}}).log.level == LogLevel::info);
  CHECK(options({{"grace", "1"}, {"shutdown-timeout", "2"}}).grace == 2s);
}

TEST_CASE("all settings of a repeatable option count, and for each limit the last one") {
  const Options both =
      options({{"store-limit", "keys=7"}, {"store-limit", "connections=3"}, {"store-limit", "keys=8"}});
  CHECK(both.store_limits.keys == 8);
  CHECK(both.store_limits.connections == 3);
  CHECK(mistake({{"store-limit", "keys=x"}, {"store-limit", "keys=8"}}) ==
        "--store-limit=keys=x: keys is not a number from 1 to 1073741824.");
}

TEST_CASE("a token cannot be given on the command line") {
  CHECK(find_option("auth-token", job_options()) == nullptr);
}

TEST_CASE("options that exclude each other are rejected") {
  CHECK(mistake({{"module", "1"}, {"no-python", "1"}}).starts_with("--no-python and -m cannot be combined"));
  CHECK(mistake({{"module", "1"}, {"run-path", "1"}}).starts_with("--run-path and -m cannot be combined"));
  CHECK(mistake({{"hosts", "a"}, {"hostfile", "f"}}).starts_with("--hosts and --hostfile cannot be combined"));
  CHECK(mistake({{"json", "1"}}).ends_with("Add --dry-run, or leave --json out."));
  CHECK(options({{"json", "1"}, {"dry-run", "1"}}).json);
  CHECK_FALSE(options({{"module", "1"}, {"no-python", "0"}}).no_python);
}

TEST_CASE("the option --run-path overrides --no-python with a note") {
  const Options both = options({{"run-path", "1"}, {"no-python", "1"}});
  CHECK_FALSE(both.no_python);
  CHECK(both.warnings == std::vector<std::string>{"--no-python has no effect, because --run-path requires Python"});
}

TEST_CASE("torch.distributed.launch passes the local rank unless use-env is given") {
  CHECK(options({}, CompatibilityMode::torch_launch).local_rank_argument);
  CHECK_FALSE(options({{"use-env", "1"}}, CompatibilityMode::torch_launch).local_rank_argument);
  CHECK(options({{"use-env", "1"}}, CompatibilityMode::torch_launch).warnings.empty());
  CHECK_FALSE(options({}, CompatibilityMode::torchrun).local_rank_argument);
  CHECK(mistake({{"no-python", "1"}}, CompatibilityMode::torch_launch).starts_with("--no-python needs --use-env"));
  CHECK(options({{"no-python", "1"}, {"use-env", "1"}}, CompatibilityMode::torch_launch).no_python);
}

TEST_CASE("the grace period is 5 s by default, and 30 s in torchrun's compatibility mode") {
  CHECK(options({}).grace == 5s);
  CHECK(options({}, CompatibilityMode::torchrun).grace == 30s);
  CHECK(options({}, CompatibilityMode::torch_launch).grace == 30s);
  CHECK(options({{"grace", "1"}}, CompatibilityMode::torchrun).grace == 1s);
}

TEST_CASE("a note explains each option that has no effect") {
  CHECK(
      options({{"monitor-interval", "5"}}).warnings.at(0).starts_with("--monitor-interval=5 has no effect: ddplaunch"));
  CHECK(options({{"event-log-handler", "null"}}).warnings.empty());
  CHECK(options({}).warnings.empty());
}
