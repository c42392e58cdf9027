#include "launcher/run/remote/host_plan.h"

#include <algorithm>

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;
using Lines = std::vector<std::string>;

namespace {

ControllerFacts facts() {
  ControllerFacts facts;
  facts.host_name = "here";
  facts.directory = "/work dir";
  facts.executable = "/opt/my tools/ddplaunch";
  facts.environment = {"PATH=/bin", "TERM=xterm"};
  facts.job_id = "0011223344556677";
  facts.new_token = "a fresh token of 32 characters..";
  facts.nonce = "89abcdef";
  return facts;
}

Options parse(const Words& words, const std::string& name = "ddplaunch") {
  std::vector<const char*> argv{name.c_str()};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto result = parse_command_line(static_cast<int>(argv.size()), argv.data(), {});
  if (const auto* error = std::get_if<UsageError>(&result)) FAIL(error->message);
  return std::get<Options>(result);
}

HostPlan plan(const Words& words, const ControllerFacts& known = facts(), const std::string& name = "ddplaunch") {
  auto result = make_host_plan(parse(words, name), known);
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

std::string mistake(const Words& words, const ControllerFacts& known = facts()) {
  const auto result = make_host_plan(parse(words), known);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().exit_code == 2);
  return result.error().message;
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool begins(const Words& words, const std::string& start) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(start); });
}

Lines forwarded(const Lines& environment, const Lines& requests = {}) {
  auto result = forwarded_environment(environment, requests);
  if (!result) FAIL(result.error().message);
  Lines lines = std::move(result).value();
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("each host gets its node rank, its workers and the rendezvous address") {
  const HostPlan made = plan({"--hosts=me@a,b:4", "--grace=3", "./train", "x y"});
  REQUIRE(made.starts.size() == 2);
  const Words& first = made.starts[0].request.words;
  REQUIRE(first.size() == 11);
  CHECK(first[7].starts_with("--master-port="));
  CHECK(first == Words{"ddplaunch", "--tag=[${rank}] ", "--grace=3", "--nnodes=2", "--node-rank=0",
                       "--rdzv-id=0011223344556677", "--master-addr=a", first[7], "--", "./train", "x y"});
  const Words& second = made.starts[1].request.words;
  CHECK(has(second, "--nproc-per-node=4"));
  CHECK(has(second, "--node-rank=1"));
  CHECK(has(second, "--master-addr=a"));
  CHECK(has(second, first[7]));
  CHECK(made.starts[1].request.host == "b");
  CHECK(made.starts[1].request.directory == "/work dir");
  CHECK(made.starts[1].request.environment == Words{"PATH=/bin"});
}

TEST_CASE("the launchers on the hosts accept the options that they get") {
  for (const HostStart& start : plan({"--hosts=a,b", "--tag=x y", "--max-restarts=2", "--", "./train"}).starts) {
    Words words = start.request.words;
    words.erase(words.begin());
    const Options options = parse(words);
    CHECK(options.max_nodes == 2);
    CHECK(options.node_rank == (start.host == "a" ? 0 : 1));
    CHECK(options.max_restarts == 2);
    CHECK(options.tag == "x y");
    CHECK(options.command == Words{"./train"});
    CHECK_FALSE(options.over_ssh());
  }
}

TEST_CASE("the user's rendezvous options are kept") {
  const Words given =
      plan({"--hosts=a,b", "--master-addr=10.0.0.1", "--master-port=7", "--rdzv-id=mine", "p"}).starts[1].request.words;
  CHECK(has(given, "--master-addr=10.0.0.1"));
  CHECK(has(given, "--master-port=7"));
  CHECK(has(given, "--rdzv-id=mine"));
  CHECK_FALSE(has(given, "--master-addr=a"));
  CHECK(std::count_if(given.begin(), given.end(), [](const auto& word) { return word.starts_with("--rdzv-id"); }) == 1);
  const Words endpoint = plan({"--hosts=a,b", "--rdzv-endpoint=c:5", "p"}).starts[0].request.words;
  CHECK_FALSE(begins(endpoint, "--master"));
}

TEST_CASE("a single host has no rendezvous") {
  const HostPlan made = plan({"--hosts=a:2", "p"});
  CHECK_FALSE(begins(made.starts[0].request.words, "--master"));
  CHECK_FALSE(begins(made.starts[0].request.words, "--tag"));
  CHECK(made.starts[0].request.token.empty());
}

TEST_CASE("a job on several hosts has the user's token or a new one, and an open job has none") {
  CHECK(plan({"--hosts=a,b", "p"}).starts[1].request.token == facts().new_token);
  ControllerFacts with_token = facts();
  with_token.token = "the user's own token";
  CHECK(plan({"--hosts=a,b", "p"}, with_token).starts[0].request.token == "the user's own token");
  CHECK(plan({"--hosts=a,b", "--store-open", "p"}).starts[0].request.token.empty());
}

TEST_CASE("ssh gets only BatchMode, the host and the launcher's path") {
  const HostPlan made = plan({"--hosts=me@a", "--ssh= ssh  -p 22", "p", "secret argument"});
  CHECK(ssh_command(made.starts[0]) ==
        Words{"ssh", "-p", "22", "-o", "BatchMode=yes", "me@a", "--", "exec '/opt/my tools/ddplaunch' on-host"});
  CHECK(ssh_command(plan({"--hosts=a", "--remote-launcher=/d/it's", "p"}).starts[0]).back() ==
        "exec '/d/it'\\''s' on-host");
}

TEST_CASE("the compatibility mode of torchrun, of torch.distributed.launch and the benchmark is kept") {
  CHECK(plan({"--hosts=a", "p"}, facts(), "/usr/bin/torchrun").starts[0].request.words.front() == "torchrun");
  const Words launch = plan({"launch", "--hosts=a,b", "p"}).starts[0].request.words;
  CHECK((launch[0] == "ddplaunch" && launch[1] == "launch"));
  CHECK_FALSE(begins(launch, "--tag"));
  const Words bench = plan({"bench", "--hosts=a,b", "all_reduce", "--sizes", "4K"}).starts[0].request.words;
  CHECK((bench[1] == "bench" && has(bench, "--quiet") && has(bench, "--tag=")));
  CHECK(Words(bench.end() - 4, bench.end()) == Words{"--", "all_reduce", "--sizes", "4K"});
}

TEST_CASE("colours follow the controller's console") {
  ControllerFacts terminal = facts();
  terminal.console_is_terminal = true;
  CHECK(has(plan({"--hosts=a", "p"}, terminal).starts[0].request.words, "--color=always"));
  CHECK_FALSE(has(plan({"--hosts=a", "--color=never", "p"}, terminal).starts[0].request.words, "--color=always"));
  CHECK_FALSE(begins(plan({"--hosts=a", "p"}).starts[0].request.words, "--color"));
  terminal.environment = {"TERM=dumb"};
  CHECK_FALSE(begins(plan({"--hosts=a", "p"}, terminal).starts[0].request.words, "--color"));
}

TEST_CASE("the hosts of a host file are those of the job") {
  ControllerFacts file = facts();
  file.host_file = "# ours\na slots=2\nb\n";
  const HostPlan made = plan({"--hostfile=f", "p"}, file);
  REQUIRE(made.starts.size() == 2);
  CHECK(has(made.starts[0].request.words, "--nproc-per-node=2"));
  file.host_file = "a slots=x\n";
  CHECK(mistake({"--hostfile=f", "p"}, file).starts_with("--hostfile=f: line 1: "));
  file.host_file = "# none\n";
  CHECK(mistake({"--hostfile=f", "p"}, file) == "--hostfile=f names no host.");
  file.failure = "--hostfile=f: the file cannot be read (x). Check its name.";
  CHECK(mistake({"--hostfile=f", "p"}, file) == file.failure);
}

TEST_CASE("contradicting host options are rejected with a remedy") {
  CHECK(
      mistake({"--hosts=a,b", "--nnodes=1", "p"}).starts_with("--hosts has 2 hosts, but --nnodes is another number."));
  CHECK(mistake({"--hosts=a,b", "--nnodes=1:2", "p"}).ends_with("Leave --nnodes out, because each host is a node."));
  CHECK(plan({"--hosts=a,b", "--nnodes=2", "p"}).starts.size() == 2);
  for (const std::string option : {"--node-rank=0", "--standalone", "--local-addr=x", "--stdin=0"}) {
    CAPTURE(option);
    CHECK(mistake({"--hosts=a,b", option, "p"}).find(option.substr(0, option.find('='))) != std::string::npos);
  }
  CHECK(mistake({"--hosts=a", "--forward-env=NO", "p"}).starts_with("--forward-env=NO"));
}

TEST_CASE("the option --hosts is rejected within a scheduler that has already started launchers") {
  ControllerFacts step = facts();
  step.cluster = ClusterEnv{};
  step.cluster->scheduler = "Slurm";
  step.cluster->node_count = 2;
  step.cluster->derived = "2 nodes (SLURM_NNODES)";
  CHECK(mistake({"--hosts=a", "p"}, step)
            .starts_with(
                "--hosts cannot be used within Slurm, which has started launchers on 2 nodes (SLURM_NNODES) already."));
  step.cluster->scheduler = "LSF";  // LSF gives hosts, but starts the script on only one of them
  CHECK(plan({"--hosts=a", "p"}, step).starts.size() == 1);
}

TEST_CASE("a dry run prints the commands for the hosts without the token") {
  const HostPlan made = plan({"--hosts=a,b:2", "./train", "x y"});
  const std::string text = describe(made);
  CHECK(text.find("ssh -o BatchMode=yes b -- 'exec '\\''/opt/my tools/ddplaunch'\\'' on-host'") != std::string::npos);
  CHECK(text.find("--nproc-per-node=2") != std::string::npos);
  CHECK(text.find("-- ./train 'x y'\n") != std::string::npos);
  CHECK(text.find("fresh token") == std::string::npos);
  const std::string json = describe_json(made);
  CHECK(json.find("\"has_token\": true") != std::string::npos);
  CHECK(json.find("\"host\": \"b\"") != std::string::npos);
  CHECK(json.find("fresh token") == std::string::npos);
}

TEST_CASE("only variables that configure training programs are forwarded to hosts") {
  CHECK(forwarded({"DDP_DEBUG=detail", "NCCL_DEBUG=INFO", "GLOO_X=1", "UCX_TLS=tcp", "OMP_NUM_THREADS=2",
                   "TORCH_LOGS=x", "PATH=/bin", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p", "VIRTUAL_ENV=/v"})
            .size() == 10);
  CHECK(forwarded({"HOME=/h", "PATHS=x", "TORCHELASTIC_RUN_ID=7", "RANK=1", "MASTER_ADDR=a", "PET_GRACE=3",
                   "CUDA_VISIBLE_DEVICES=1", "DDP_AUTH_TOKEN=secret", "DDP_PAGE_FD=197", "DDP_ATTEMPT=1",
                   "DDP_LAST_FAILURE=x", "SSH_AUTH_SOCK=/s"})
            .empty());
}

TEST_CASE("more variables are forwarded by name, by prefix, or with a value") {
  const Lines here = {"AB=1", "AC=2", "B=3", "CUDA_VISIBLE_DEVICES=1", "PATH=/bin"};
  CHECK(forwarded(here, {"B"}) == Lines{"B=3", "PATH=/bin"});
  CHECK(forwarded(here, {"A*"}) == Lines{"AB=1", "AC=2", "PATH=/bin"});
  CHECK(forwarded(here, {"NEW=x=y", "PATH=/other"}) == Lines{"NEW=x=y", "PATH=/other"});
  CHECK(forwarded(here, {"CUDA_VISIBLE_DEVICES"}).front() == "CUDA_VISIBLE_DEVICES=1");
  CHECK(forwarded(here, {"NONE_*"}) == Lines{"PATH=/bin"});
}

TEST_CASE("the token is never forwarded, and forwarding an unset variable is an error") {
  CHECK(forwarded({"DDP_AUTH_TOKEN=secret"}, {"DDP_*", "DDP_AUTH_TOKEN"}).empty());
  const auto result = forwarded_environment(Lines{"A=1"}, Lines{"B"});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.starts_with("--forward-env=B: there is no such variable here."));
}
