#include "launcher/start/cli/subcommand_options.h"

#include "base/text.h"
#include "launcher/start/cli/help_text.h"
#include "support/command_line.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Action = StoreOptions::Action;

namespace {

// The variables set options of a job, and none of these commands.
Words words_of(const char* command, Words words) {
  words.insert(words.begin(), command);
  return words;
}

StoreOptions store(const Words& words) {
  return parsed_as<StoreOptions>(words_of("store", words), {"PET_STORE_LIMIT=keys=1", "PET_X=1"});
}

ReportOptions report(const Words& words) {
  return parsed_as<ReportOptions>(words_of("report", words), {"PET_OUTPUT=x"});
}

TopOptions top(const Words& words) {
  return parsed_as<TopOptions>(words_of("top", words));
}

}  // namespace

TEST_CASE("ddplaunch store serves on this host at torchrun's port by default") {
  CHECK(store({}) == StoreOptions{});
  CHECK(store({}).host == "127.0.0.1");
  CHECK(store({}).port == 29'500);
  CHECK(store({"--store-open"}).host == "::");
  CHECK(store({"--host", "10.0.0.1", "--store-open"}).host == "10.0.0.1");
}

TEST_CASE("the options of ddplaunch store serve are parsed") {
  const StoreOptions all = store({"--host=node0", "--port", "0", "--port_file=/p", "--auth-token-file=/t",
                                  "--store-limit=keys=7", "--store-limit", "connections=3"});
  CHECK(all.action == Action::serve);
  CHECK(all.host == "node0");
  CHECK(all.port == 0);
  CHECK(all.port_file == "/p");
  CHECK(all.auth_token_file == "/t");
  CHECK_FALSE(all.open);
  CHECK(all.limits.keys == 7);
  CHECK(all.limits.connections == 3);
  CHECK(store({"--port=1", "--port=2"}).port == 2);
}

TEST_CASE("the address of an inspected or joined store may have a port") {
  struct Place {
    const char* word;
    const char* host;
    int port;
  };
  for (const Place& place : {Place{"node0:1", "node0", 1}, Place{"node0", "node0", 29'500}, Place{"[::1]:7", "::1", 7},
                             Place{"::1", "::1", 29'500}}) {
    CAPTURE(place.word);
    const StoreOptions inspect = store({"--inspect", place.word, "--json"});
    CHECK(inspect.action == Action::inspect);
    CHECK(inspect.json);
    CHECK(inspect.host == place.host);
    CHECK(inspect.port == place.port);
    CHECK(store({"--join", place.word}).action == Action::join);
  }
}

TEST_CASE("invalid arguments of ddplaunch store are usage errors that say what to do") {
  struct Row {
    Words words;
    const char* message;
  };
  const std::vector<Row> rows = {
      {{"--port=x"}, "--port=x is not a number from 0 to 65535."},
      {{"--host="}, "--host= is empty. Name an address of this node."},
      {{"--port-file="}, "--port-file= is empty. Name a file."},
      {{"--inspect="}, "--inspect= is not an endpoint."},
      {{"--inspect", "a:0"}, "--inspect=a:0 has no port. Add the port of the store, 29500 by default."},
      {{"--store-limit=keys=0"}, "--store-limit=keys=0: keys is not a number"},
      {{"--insp"}, "unknown option --insp. Did you mean --inspect?"},
      {{"--nproc-per-node=2"}, "unknown option --nproc-per-node."},
      {{"--auth-token=secret"}, "unknown option --auth-token."},
      {{"--json"}, "--json requires --inspect. Add --inspect, or leave this option out."},
      {{"--join=a", "--json"}, "--json cannot be combined with --join. Leave one out."},
      {{"--inspect=a", "--port=7"}, "--port=7 cannot be combined with --inspect. Leave one out."},
      {{"--inspect=a", "--join=b"}, "--inspect=a cannot be combined with --join. Leave one out."},
      {{"--join=b", "--inspect=a"}, "--join=b cannot be combined with --inspect. Leave one out."},
      {{"--inspect=a", "--store-open"}, "--store-open cannot be combined with --inspect. Leave one out."},
      {{"train.py"}, "ddplaunch store starts no program. Remove 'train.py'."},
      {{"--", "x"}, "ddplaunch store starts no program. Remove 'x'."},
  };
  for (const Row& row : rows) {
    CHECK_THAT(mistake(words_of("store", row.words)), Catch::StartsWith(row.message) &&
                                                          Catch::EndsWith(" See ddplaunch store --help") &&
                                                          !Catch::Contains("secret"));
  }
}

TEST_CASE("a report is written beside its event log unless another file is given") {
  CHECK(report({"run.jsonl"}).event_logs == Words{"run.jsonl"});
  CHECK(report({"run.jsonl"}).output == "run.html");
  CHECK(report({"/logs.d/run"}).output == "/logs.d/run.html");
  CHECK(report({"a/.jsonl"}).output == "a/.jsonl.html");
  CHECK(report({"run.jsonl", "-o", "x.html"}).output == "x.html");
  CHECK(report({"--output=-", "--run-id=r1", "run.jsonl"}).output == "-");
  CHECK(report({"--run-id=r1", "run.jsonl"}).run_id == "r1");
  CHECK(report({"d/a.jsonl", "e/b.jsonl"}).event_logs == Words{"d/a.jsonl", "e/b.jsonl"});
  CHECK(report({"d/a.jsonl", "e/b.jsonl"}).output == "d/a-b.html");
}

TEST_CASE("mistakes in the options of ddplaunch report say what to do") {
  CHECK(mistake({"report"}).starts_with("no event log given. Usage: ddplaunch report EVENT_LOG [EVENT_LOG]."));
  CHECK(
      mistake({"report", "a", "b", "c"}) ==
      "ddplaunch report compares at most two event logs, and 'c' is the third. Remove it. See ddplaunch report --help");
  CHECK(mistake({"report", "a", "b", "--run-id=r1"}).starts_with("--run-id selects a run of one event log"));
  CHECK(mistake({"report", "a", ""}).starts_with("the name of the event log is empty"));
  CHECK(mistake({"report", ""}).starts_with("the name of the event log is empty"));
  CHECK(mistake({"report", "run.html"}).starts_with("the report would overwrite the event log 'run.html'"));
  CHECK(mistake({"report", "a", "--max-restarts=1"}).starts_with("unknown option --max-restarts"));
}

TEST_CASE("ddplaunch top shows the only job by default, twice per second") {
  CHECK(top({}) == TopOptions());
}

TEST_CASE("the job of ddplaunch top may stand before or after the options") {
  TopOptions expected;
  expected.job = "night-run";
  expected.once = expected.json = expected.no_color = true;
  expected.interval = 1500ms;
  expected.order = RankOrder::waited_for;
  expected.filter = "node1";
  const Words given = {"--once", "--json", "--no-color", "--interval=1.5", "--sort=waited-for", "--filter=node1"};
  Words before = given;
  before.insert(before.begin(), "night-run");
  Words after = given;
  after.push_back("night-run");
  CHECK(top(before) == expected);
  CHECK(top(after) == expected);
  CHECK(top({"4321"}).job == "4321");
}

TEST_CASE("each sort order of ddplaunch top has a name on the command line") {
  int order = 0;
  for (const std::string& name : ddp::base::split(kNamesOf<RankOrder>, ' ')) {
    CHECK(top({"--sort", name}).order == static_cast<RankOrder>(order++));
  }
  CHECK(order == static_cast<int>(RankOrder::output) + 1);
}

TEST_CASE("invalid arguments of ddplaunch top are usage errors that say what to do") {
  CHECK_THAT(mistake({"top", "1", "2"}), Catch::StartsWith("ddplaunch top shows one job. Remove '2'."));
  CHECK_THAT(mistake({"top", "--interval=0"}), Catch::StartsWith("--interval=0 is too short. Use 0.1 or more."));
  CHECK_THAT(mistake({"top", "--interval=x"}), Catch::StartsWith("--interval=x"));
  CHECK_THAT(mistake({"top", "--sort=height"}), Catch::Contains("waited-for"));
  CHECK_THAT(mistake({"top", "--filter="}), Catch::StartsWith("--filter= is empty."));
  CHECK_THAT(mistake({"top", "--onec"}), Catch::StartsWith("unknown option --onec. Did you mean --once?") &&
                                             Catch::EndsWith(" See ddplaunch top --help"));
}

TEST_CASE("ddplaunch ls accepts one option and no arguments") {
  CHECK(parsed_as<LsOptions>({"ls"}) == LsOptions{false});
  CHECK(parsed_as<LsOptions>({"ls", "--json"}) == LsOptions{true});
  CHECK(std::holds_alternative<Information>(parsed({"ls", "-h"})));
  CHECK(mistake({"ls", "/tmp"}) ==
        "ddplaunch ls lists all jobs. Remove '/tmp'. To start a program named ls, write ./ls or its path. See "
        "ddplaunch ls --help");
  CHECK_THAT(mistake({"ls", "-l"}), Catch::StartsWith("unknown option -l."));
}

TEST_CASE("a program named ls, top or help can be started by its path, after run, and as torchrun") {
  for (const std::string word : {"ls", "top", "help"}) {
    CAPTURE(word);
    CHECK(parsed_as({"./" + word}).command == Words{"./" + word});
    CHECK(parsed_as({"run", word}).command == Words{word});
    CHECK(parsed_as({word}, {}, "torchrun").command == Words{word});
  }
}

TEST_CASE("ddplaunch explain accepts files, directories and standard input") {
  CHECK(parsed_as<ExplainOptions>({"explain", "a.log", "logs", "-"}) == ExplainOptions{{"a.log", "logs", "-"}, false});
  CHECK(parsed_as<ExplainOptions>({"explain", "a.log", "--json"}) == ExplainOptions{{"a.log"}, true});
  CHECK(std::holds_alternative<Information>(parsed({"explain", "--help"})));
  CHECK(parsed_as({"./explain"}).command == Words{"./explain"});
}

TEST_CASE("ddplaunch explain without a log is an error") {
  CHECK_THAT(mistake({"explain"}), Catch::StartsWith("no log given. Usage: ddplaunch explain FILE"));
  CHECK_THAT(mistake({"explain", ""}), Catch::StartsWith("the name of a log is empty."));
  CHECK_THAT(mistake({"explain", "--jsn", "a"}), Catch::StartsWith("unknown option --jsn. Did you mean --json?"));
}

TEST_CASE("ddplaunch doctor takes the options of a job and its own, and perhaps a program") {
  CHECK(parsed_as({"doctor"}).subcommand == "doctor");
  CHECK(parsed_as({"doctor"}).doctor == DoctorOptions{});
  const Options options = parsed_as({"doctor", "--nproc-per-node=8", "--nnodes=2", "--rdzv-endpoint=a", "--node",
                                     "--checkpoint-dir=/data", "--deep", "--strict", "--json", "train.py", "--json"});
  CHECK(options.doctor == DoctorOptions{true, "/data", true, true, true});
  CHECK(options.nproc_per_node == WorkerCount(8));
  CHECK(options.max_nodes == 2);
  CHECK(options.command == Words{"train.py", "--json"});
  CHECK_FALSE(options.json);
  CHECK_FALSE(mistake({"doctor", "--nnodes=0"}).empty());
  CHECK(parsed_as({"./doctor"}).command == Words{"./doctor"});
}

TEST_CASE("the help of each subcommand without a job lists each option in at most 80 columns") {
  for (const char* name : {"store", "report", "top", "ls", "explain"}) {
    CAPTURE(name);
    const std::string text = information({name, "--help", "--nonsense"});
    CHECK(text == subcommand_help(*find_subcommand(name)));
    for (const OptionInfo& option : find_subcommand(name)->options()) {
      CHECK(text.find("--" + option.name()) != std::string::npos);
    }
    for (const std::string& line : ddp::base::split(text, '\n')) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
      CHECK_FALSE(line.ends_with(' '));
    }
    CHECK(information({name, "-h"}) == text);
    CHECK(information({name, "help"}) == text);
  }
}

TEST_CASE("the option of a check needs no value, and takes none from the program") {
  CHECK(parsed_as({"./train"}).check == Check::off);
  CHECK(parsed_as({"--check", "./train"}).check == Check::quick);
  CHECK(parsed_as({"--check", "./train"}).command == Words{"./train"});
  CHECK(parsed_as({"--check", "deep", "./train"}).check == Check::deep);
  CHECK(parsed_as({"--check=off", "./train"}).check == Check::off);
  CHECK(parsed_as({"--check", "--nproc-per-node=2", "./train"}).check == Check::quick);
  CHECK_THAT(mistake({"--check=thorough", "./train"}), Catch::Contains("off, quick or deep"));
}
