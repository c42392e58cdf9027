#include "launcher/see/report/job_json.h"

#include <nlohmann/json.hpp>

#include <csignal>

#include "launcher/run/job/restore_plan.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::ExitStatus;
using Json = nlohmann::json;

namespace {

const std::string kNotUtf8 = "bad \xff\xfe bytes\nand \"quotes\"\x01";
const std::string kNotUtf8AsJson = "bad \xef\xbf\xbd\xef\xbf\xbd bytes\nand \"quotes\"\x01";
constexpr WallTime kNow = WallTime(1'763'714'602'123ms);

LaunchPlan plan_with(int workers) {
  LaunchPlan plan;
  plan.host_name = "node0";
  plan.run_id = "r1";
  plan.program = "/bin/train";
  plan.arguments = {"train", kNotUtf8};
  plan.workers = workers;
  plan.max_restarts = 3;
  plan.devices = {"0", std::nullopt};
  return plan;
}

Placement placement() {
  Placement placement;
  placement.first_rank = 4;
  placement.world_size = 8;
  placement.attempt = 1;
  placement.master_addr = "127.0.0.1";
  placement.master_port = 29500;
  return placement;
}

// Parses one line of valid JSON, and checks the fields that all events have.
Json parse(const std::string& line, const std::string& event) {
  CAPTURE(line);
  CHECK(line.find('\n') == std::string::npos);
  Json json = Json::parse(line);
  CHECK(json.at("time") == "2025-11-21T08:43:22.123Z");
  CHECK(json.at("event") == event);
  CHECK(json.at("run_id") == "r1");
  CHECK(json.at("node") == "node0");
  for (const char* name : {"time", "event", "run_id", "node"}) json.erase(name);
  return json;
}

Json of_event(const Event& event, const std::string& name) {
  return parse(event_line(plan_with(2), placement(), event, kNow), name);
}

WorkerEnd end_of(int local_rank, ExitStatus status) {
  WorkerEnd end;
  end.local_rank = local_rank;
  end.rank = 4 + local_rank;
  end.pid = 4711;
  end.status = status;
  return end;
}

Json summary_of(const JobOutcome& outcome, const JobEnd& end = {3, 2, 1500ms, "", "", {"what was said"}}) {
  FailureEvidence evidence;
  evidence.core = "/c/core";
  evidence.last_lines = {"last", kNotUtf8};
  return Json::parse(summary_document(plan_with(2), outcome, end, evidence, "/logs"));
}

Json cause_in_json(const JobOutcome& outcome) {
  const Json cause = summary_of(outcome).at("cause");
  const auto line = attempt_ended_line(plan_with(2), placement(), {outcome, "", {}, {}}, kNow);
  CHECK(parse(line, "attempt_ended").at("cause") == cause);
  return cause;
}

}  // namespace

TEST_CASE("times are printed in UTC with milliseconds") {
  CHECK(iso_time(kNow) == "2025-11-21T08:43:22.123Z");
  CHECK(iso_time(WallTime(0ms)) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(WallTime(1'709'164'800'007ms)) == "2024-02-29T00:00:00.007Z");
}

TEST_CASE("the job_begin event has the schema and the command") {
  LaunchPlan plan = plan_with(2);
  plan.command_line = {"ddplaunch", "--rdzv-id=r1", "train", "--api-key=abc"};
  plan.inherited_environment = {"NCCL_DEBUG=INFO", "HOME=/root", "DDP_AUTH_TOKEN=abc"};
  const Json json = parse(job_started_line(plan, {"/logs", "/work", "Linux"}, kNow), "job_started");
  CHECK(json.at("version").get<std::string>().size() > 4);
  Json rest = json;
  rest.erase("version");
  CHECK(rest == Json::object({{"schema", 1},
                              {"program", "/bin/train"},
                              {"arguments", {"train", kNotUtf8AsJson}},
                              {"workers", 2},
                              {"max_restarts", 3},
                              {"command_line", {"ddplaunch", "--rdzv-id=r1", "train", "--api-key=***"}},
                              {"variables", {"DDP_AUTH_TOKEN=***", "NCCL_DEBUG=INFO"}},
                              {"nodes", "1"},
                              {"recording", "steps"},
                              {"directory", "/work"},
                              {"system", "Linux"},
                              {"log_directory", "/logs"}}));
  const Json bare = parse(job_started_line(plan_with(2), {}, kNow), "job_started");
  for (const char* name : {"log_directory", "directory", "system"}) CHECK_FALSE(bare.contains(name));
}

TEST_CASE("only variables that matter for distributed jobs are in the event log, without secrets") {
  LaunchPlan plan = plan_with(2);
  plan.inherited_environment = {"PATH=/bin",          "NCCL_DEBUG=INFO", "HF_TOKEN=abc", "DDP_AUTH_TOKEN=abc",
                                "TORCH_HOME=/t",      "SLURM_JWT=abc",   "NCCL_",        "CUDA_VISIBLE_DEVICES=0,1",
                                "OMP_NUM_THREADS=4=5"};
  CHECK(parse(job_started_line(plan, {}, kNow), "job_started").at("variables") ==
        Json({"CUDA_VISIBLE_DEVICES=0,1", "DDP_AUTH_TOKEN=***", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4=5",
              "SLURM_JWT=***", "TORCH_HOME=/t"}));
}

TEST_CASE("the event of an attempt has its number, its ranks and the master address") {
  CHECK(parse(attempt_started_line(plan_with(2), placement(), kNow), "attempt_started") ==
        Json::object({{"attempt", 1},
                      {"world_size", 8},
                      {"first_rank", 4},
                      {"workers", 2},
                      {"master_addr", "127.0.0.1"},
                      {"master_port", 29500}}));
}

TEST_CASE("the event of a restart has its state and the time since the failure") {
  Placement place = placement();
  place.restore.step = 7;
  place.restore.lost_steps = 2;
  place.restore.ranks.resize(2);
  const Json line = parse(attempt_started_line(plan_with(2), place, kNow, 50ms), "attempt_started");
  CHECK(line.at("restored") ==
        Json{{"step", 7}, {"lost_steps", 2}, {"source", "memory"}, {"text", describe(place.restore)}});
  CHECK(line.at("since_failure_seconds") == 0.05);
}

TEST_CASE("the event of a worker's start has its GPU") {
  const Json start = {{"attempt", 1}, {"rank", 4}, {"local_rank", 0}, {"pid", 99}, {"gpu", "0"}};
  CHECK(of_event(WorkerStarted{0, 99}, "worker_started") == start);
  CHECK(of_event(WorkerStarted{1, 99}, "worker_started") ==
        Json::object({{"attempt", 1}, {"rank", 5}, {"local_rank", 1}, {"pid", 99}}));
}

TEST_CASE("the event of a worker that cannot start has the reason") {
  CHECK(
      of_event(SpawnFailed{1, {126, kNotUtf8}}, "worker_not_started") ==
      Json::object({{"attempt", 1}, {"rank", 5}, {"local_rank", 1}, {"exit_code", 126}, {"message", kNotUtf8AsJson}}));
}

TEST_CASE("the event of a worker's exit has either an exit code or a signal") {
  CHECK(of_event(WorkerEnd{1, ExitStatus::exited(11), std::nullopt, 7, std::nullopt}, "worker_ended") ==
        Json::object({{"attempt", 1}, {"rank", 5}, {"local_rank", 1}, {"exit_code", 11}, {"peak_rss_bytes", 7}}));
  CHECK(of_event(WorkerEnd{1, ExitStatus::killed(SIGSEGV, true), std::nullopt, 7, std::nullopt}, "worker_ended") ==
        Json::object({{"attempt", 1},
                      {"rank", 5},
                      {"local_rank", 1},
                      {"signal", "SIGSEGV"},
                      {"core_dumped", true},
                      {"peak_rss_bytes", 7}}));
}

TEST_CASE("the event of a worker's exit has its own message and the kernel's") {
  const Json json = of_event(
      WorkerEnd{0, ExitStatus::killed(SIGKILL), ErrorRecord{kNotUtf8, true}, 7, OomKill{"/sys/fs/cgroup/a", 10, 9}},
      "worker_ended");
  CHECK(json.at("error") == kNotUtf8AsJson);
  CHECK(json.at("secondary") == true);
  CHECK(json.at("oom") == Json::object({{"cgroup", "/sys/fs/cgroup/a"}, {"limit_bytes", 10}, {"peak_bytes", 9}}));
}

TEST_CASE("the event of a worker's exit has the missing GPU memory and the GPU") {
  WorkerEnd end{0, ExitStatus::exited(1), ErrorRecord{"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"}};
  end.gpu_uuid = "aa11";
  const Json json = of_event(end, "worker_ended");
  CHECK(json.at("gpu_memory") == Json::object({{"source", "pytorch"}, {"asked_bytes", std::uint64_t{2} << 30}}));
  CHECK(json.at("gpu_uuid") == "aa11");
}

TEST_CASE("the summary names the processes on a GPU without free memory") {
  GpuMemoryFailure failure;
  failure.error.source = GpuMemoryError::Source::nccl;
  failure.error.free_bytes = 5;
  failure.gpu = 3;
  failure.neighbours = {{{11, 7, "python3", 1001}, 0}, {{12}}};
  FailureEvidence evidence;
  evidence.gpu_memory = failure;
  const Json json = Json::parse(summary_document(plan_with(2), {}, {3, 1, 1s, ""}, evidence, ""));
  CHECK(json.at("gpu_memory") ==
        Json::object({{"source", "nccl"},
                      {"free_bytes", 5},
                      {"gpu", 3},
                      {"others", {{{"pid", 11}, {"bytes", 7}, {"rank", 0}, {"name", "python3"}}, {{"pid", 12}}}}}));
}

TEST_CASE("outside events are logged, and internal timers are not") {
  CHECK(of_event(SignalArrived{SIGUSR1}, "signal") == Json::object({{"signal", "SIGUSR1"}}));
  CHECK(of_event(GuardianLost{}, "launcher_killed") == Json::object());
  CHECK(of_event(ConsoleClosed{}, "console_closed") == Json::object());
  CHECK(event_line(plan_with(2), placement(), AlarmRang{}, kNow).empty());
}

TEST_CASE("the event of an attempt's end says what follows") {
  JobOutcome outcome;
  outcome.status = ExitStatus::exited(3);
  outcome.ended_ranks = {5};
  outcome.run_time = 1500ms;
  outcome.ending_time = 20us;
  const auto line = [&](const std::string& next) {
    return parse(attempt_ended_line(plan_with(2), placement(), {outcome, next, {}, {}}, kNow), "attempt_ended");
  };
  Json expected = {{"attempt", 1},       {"exit_code", 3},     {"cause", nullptr},
                   {"ended_ranks", {5}}, {"run_seconds", 1.5}, {"ending_seconds", 0.00002}};
  expected["text"] = expected["last_lines"] = Json::array();
  expected["cause_code"] = "none";
  expected["repeat"] = "no";
  expected["stragglers"] = {{"collectives", 0}, {"seconds", 0.0}, {"ranks", Json::array()}};
  CHECK(line("") == expected);
  expected["next"] = "restart 1 of 3";
  CHECK(line("restart 1 of 3") == expected);
  const FailureEvidence evidence{.core = "/c/core", .last_lines = {"last", kNotUtf8}, .log_file = "/l"};
  const Json failed = parse(
      attempt_ended_line(plan_with(2), placement(), {outcome, "", evidence, {"rank 5 failed"}}, kNow), "attempt_ended");
  CHECK(failed.at("text") == Json{"rank 5 failed"});
  CHECK(failed.at("last_lines") == Json{"last", kNotUtf8AsJson});
  CHECK(failed.at("core") == "/c/core");
  CHECK(failed.at("log_file") == "/l");
}

TEST_CASE("messages of the launcher are logged as events") {
  const LogLine line{LogLevel::warning, LogSource::nodes, "node b has another version"};
  CHECK(parse(message_line(plan_with(2), "node0", line, kNow), "message") ==
        Json::object({{"level", "warning"}, {"source", "nodes"}, {"text", "node b has another version"}}));
}

TEST_CASE("the event of the job's end has the launcher's exit code") {
  CHECK(parse(job_ended_line(plan_with(2), {143, 2, 2s, ""}, kNow), "job_ended") ==
        Json::object({{"exit_code", 143}, {"attempts", 2}, {"run_seconds", 2.0}, {"text", Json::array()}}));
  CHECK(parse(job_ended_line(plan_with(2), {125, 0, 2s, "no port"}, kNow), "job_ended").at("message") == "no port");
}

TEST_CASE("each cause has a kind and its own fields") {
  CHECK(cause_in_json({}) == nullptr);

  JobOutcome failed;
  failed.cause = WorkerFailed{end_of(1, ExitStatus::exited(3)), {}};
  std::get<WorkerFailed>(failed.cause).end.error = ErrorRecord{kNotUtf8, false};
  CHECK(cause_in_json(failed) == Json::object({{"kind", "worker_failed"},
                                               {"rank", 5},
                                               {"local_rank", 1},
                                               {"pid", 4711},
                                               {"exit_code", 3},
                                               {"ended_by_launcher", false},
                                               {"peak_rss_bytes", 0},
                                               {"error", kNotUtf8AsJson},
                                               {"secondary", false}}));

  JobOutcome signal;
  signal.cause = SignalArrived{SIGINT};
  CHECK(cause_in_json(signal) == Json::object({{"kind", "signal"}, {"signal", "SIGINT"}}));

  JobOutcome not_started;
  not_started.cause = SpawnFailed{1, {126, "not executable"}};
  CHECK(cause_in_json(not_started) ==
        Json::object({{"kind", "cannot_start"}, {"local_rank", 1}, {"message", "not executable"}}));

  JobOutcome lost;
  lost.cause = GuardianLost{};
  CHECK(cause_in_json(lost) == Json::object({{"kind", "launcher_killed"}}));

  JobOutcome late;
  late.cause = ExitTimedOut{};
  late.left_early = {4};
  late.ended_ranks = {5};
  CHECK(cause_in_json(late) == Json::object({{"kind", "exit_timeout"}, {"ended", {4}}, {"waited_for", {5}}}));
}

TEST_CASE("a hang is logged with the state of every rank") {
  JobOutcome outcome;
  HangNews& news = outcome.cause.emplace<HangNews>();
  news.verdict = {VerdictKind::not_called, "world", 2, 21, "barrier", {1}, {0}, {}};
  news.age = 8s;
  news.judgement = {HangClass::users_limit, 5s, true, 22s, 30s, "--hang-timeout"};
  RankView& rank = news.ranks.emplace_back();
  rank.activity = RankActivity{10s, 5s, true, Sign::none, 0.5};
  rank.rank = 1;
  rank.process = ProcessSample{'D', 0, 0, "nfs_wait"};
  rank.page.is_written = true;
  rank.page.phase = RankPhase::checkpoint;
  rank.page.phase_name = "run1";
  rank.page.groups.push_back({"world", 1, 2, 0, 20, 20, 20, 0, 0});
  rank.calls = {{{20, 1, 1, "barrier", "end", "train.cpp:7"}}};
  const Json stall = cause_in_json(outcome).at("stall");
  CHECK(stall.at("code") == "DDP-H03");
  CHECK(stall.at("group") == "world");
  CHECK(stall.at("number") == 21);
  CHECK(stall.at("age_seconds") == 8.0);
  CHECK(stall.at("class") == "users_limit");
  CHECK(stall.at("limit_seconds") == 30.0);
  CHECK(stall.at("ends_in_seconds") == 22.0);
  const Json& at = stall.at("ranks").at(0);
  CHECK(at.at("state") == "D");
  CHECK(at.at("cpu_share") == 0.5);
  CHECK(at.at("still_seconds") == 10.0);
  CHECK(at.at("sign_of_life") == "none");
  CHECK(at.at("waits_in") == "nfs_wait");
  CHECK(at.at("phase") == "checkpoint");
  CHECK(at.at("phase_name") == "run1");
  CHECK(at.at("groups").at(0).at("calls").at(0) ==
        Json::object({{"number", 20}, {"call", "barrier"}, {"name", "end"}, {"place", "train.cpp:7"}}));
}

TEST_CASE("a failure of the launcher itself is a cause in the summary") {
  CHECK(summary_of({}, {125, 0, 1s, "no port"}).at("cause") ==
        Json::object({{"kind", "launcher_failed"}, {"message", "no port"}}));
}

TEST_CASE("the JSON summary contains the exit codes, times, ended ranks and last lines of the job") {
  JobOutcome outcome;
  outcome.cause = WorkerFailed{end_of(0, ExitStatus::killed(SIGSEGV, true)), {}};
  outcome.ends = {*outcome.culprit(), end_of(1, ExitStatus::killed(SIGKILL))};
  outcome.ends[1].after_signal = true;
  outcome.ended_ranks = {5};
  outcome.left_early = {6};
  outcome.needed_kill = true;
  outcome.unkillable = {{7, 99}};
  outcome.leftovers = {1234};
  outcome.run_time = 250ms;
  outcome.ending_time = 5s;
  const Json json = summary_of(outcome);
  CHECK(json.at("schema") == 1);
  CHECK(json.at("run_id") == "r1");
  CHECK(json.at("node") == "node0");
  CHECK(json.at("program") == "/bin/train");
  CHECK(json.at("arguments") == Json::array({"train", kNotUtf8AsJson}));
  CHECK(json.at("workers") == 2);
  CHECK(json.at("exit_code") == 3);
  CHECK(json.at("attempts") == 2);
  CHECK(json.at("run_seconds") == 1.5);
  CHECK(json.at("last_attempt_seconds") == 0.25);
  CHECK(json.at("ending_seconds") == 5.0);
  CHECK(json.at("core") == "/c/core");
  CHECK(json.at("log_directory") == "/logs");
  CHECK(json.at("last_lines") == Json::array({"last", kNotUtf8AsJson}));
  CHECK(json.at("ended_ranks") == Json::array({5}));
  CHECK(json.at("left_early") == Json::array({6}));
  CHECK(json.at("needed_kill") == true);
  CHECK(json.at("unkillable") == Json::array({{{"rank", 7}, {"pid", 99}}}));
  CHECK(json.at("leftovers") == Json::array({1234}));
  CHECK(json.at("text") == Json::array({"what was said"}));
  REQUIRE(json.at("workers_ended").size() == 2);
  CHECK(json.at("workers_ended")[0].at("signal") == "SIGSEGV");
  CHECK(json.at("workers_ended")[1].at("ended_by_launcher") == true);
}

TEST_CASE("the summary of a successful job has no cause and no message") {
  const Json json = Json::parse(summary_document(plan_with(2), {}, {0, 1, 1s, ""}, {}, ""));
  CHECK(json.at("exit_code") == 0);
  CHECK(json.at("cause") == nullptr);
  CHECK(json.at("text") == Json::array());
  CHECK(json.at("unkillable") == Json::array());
  CHECK_FALSE(json.contains("core"));
  CHECK_FALSE(json.contains("log_directory"));
}

TEST_CASE("an error file for an outer launcher has the format that it reads") {
  const Json coded =
      Json::parse(with_cause_code(R"({"message":{"message":"KeyError: 1"}})", ddp::wire::CauseCode::repeated_error));
  CHECK(coded ==
        Json{{"message", {{"message", "KeyError: 1"}}}, {"ddp_cause", "repeated_error"}, {"ddp_repeat", "no"}});
  CHECK(with_cause_code("not JSON", ddp::wire::CauseCode::program) == "not JSON");
  const std::string document = error_record_document(kNotUtf8, {"one", "two"}, 3, kNow);
  const auto record = parse_error_record(document);
  REQUIRE(record);
  CHECK(*record == ErrorRecord{kNotUtf8AsJson, false});
  CHECK(Json::parse(document) ==
        Json::object({{"message",
                       {{"message", kNotUtf8AsJson},
                        {"errorCode", 3},
                        {"extraInfo", {{"py_callstack", "one\ntwo"}, {"timestamp", "1763714602"}}}}}}));
}

TEST_CASE("control characters in events are escaped") {
  LaunchPlan plan = plan_with(1);
  plan.arguments = {"\xc2\x9b\xe2\x80\xae"};
  const std::string line = job_started_line(plan, {}, kNow);
  CHECK_THAT(line, Catch::Contains("\\u009b\\u202e"));
  CHECK(Json::parse(line).at("arguments").at(0) == plan.arguments[0]);
}

TEST_CASE("events use the node's name in the job") {
  Placement place = placement();
  place.node_name = "node0#2";
  LaunchPlan odd = plan_with(2);
  odd.host_name = "h\x1b";
  Placement place_of_odd = placement();
  place_of_odd.node_name = "h\\x1b";
  const auto node_in = [](const std::string& text) { return Json::parse(text).at("node").get<std::string>(); };
  CHECK(node_in(attempt_started_line(plan_with(2), place, kNow)) == "node0#2");
  CHECK(node_in(event_line(plan_with(2), place, SignalArrived{SIGTERM}, kNow)) == "node0#2");
  CHECK(node_in(attempt_ended_line(plan_with(2), place, {JobOutcome(), "", {}, {}}, kNow)) == "node0#2");
  CHECK(node_in(attempt_started_line(odd, place_of_odd, kNow)) == odd.host_name);
  const JobEnd end{0, 1, 1s, "", "node0#2"};
  CHECK(node_in(job_ended_line(plan_with(2), end, kNow)) == "node0#2");
  CHECK(node_in(summary_document(plan_with(2), {}, end, {}, "")) == "node0#2");
}
