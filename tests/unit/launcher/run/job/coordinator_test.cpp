#include "launcher/run/job/coordinator.h"

#include <functional>

#include "launcher/run/job/node_hello.h"
#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

using Job = CoordinatorJob;

TEST_CASE("a job begins when all of its nodes have joined") {
  Job job;
  CHECK(job.to<wire::CoordinatorBegins>(kOwnNode).empty());
  wire::NodeHello other = node("b");
  other.workers = 3;
  job.comes(7, other);
  CHECK(job.to<wire::CoordinatorBegins>(kOwnNode) ==
        std::vector{wire::CoordinatorBegins{0, 0, 2, 0, 5, "a (ranks 0-1), b (ranks 2-4, 10.0.0.7)"}});
  CHECK(job.to<wire::CoordinatorBegins>(7) ==
        std::vector{wire::CoordinatorBegins{0, 1, 2, 2, 5, "a (ranks 0-1), b (ranks 2-4, 10.0.0.7)"}});
  CHECK(job.count<EmptyStore>() == 1);
}

TEST_CASE("nodes with numbers are ranked by number, whichever joins first") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  options.nodes.rank = 0;
  Job job(options, 0);
  job.comes(7, node("c", 2)).comes(8, node("b", 1));
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].node_rank == 2);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].first_rank == 4);
  CHECK(job.to<wire::CoordinatorBegins>(8)[0].first_rank == 2);
}

TEST_CASE("refused connections produce a limited number of log lines") {
  Job job;
  for (NodeId id = 10; id < 400; ++id) {
    wire::NodeHello hello = node(std::string(10'000, 'x') + "\x1b[2J" + std::to_string(id));
    hello.job = std::string(100'000, 'y');
    for (int i = 0; i < 100; ++i) hello.same["file " + std::to_string(i)] = std::string(1000, 'z');
    job.says(id, hello);  // all come from one address
  }
  const auto messages = job.messages();
  REQUIRE(messages.size() == 5);
  for (const std::string& line : messages) {
    CHECK(line.size() < 800);
    CHECK(line.find('\x1b') == std::string::npos);
  }
  CHECK(messages.back().ends_with("(further lines about this address are not shown)"));
  for (NodeId id = 1000; id < 1200; ++id)
    job.comes(id, [] {
      wire::NodeHello hello = node("b");
      hello.same["program train"] = std::string(100'000, 'z');
      return hello;
    }());
  CHECK(job.messages().size() == 5 + 63);  // each comes from a different address
}

TEST_CASE("the failure text of a node is shortened and cleaned before it reaches other nodes") {
  Job job;
  job.comes(7, node("b"));
  wire::Cause cause = failure();
  cause.text = "rank 2: \x1b[2J" + std::string(100'000, 'x');
  cause.node = cause.not_restarted = cause.text;
  cause.exit_code = 256;
  job.says(7, wire::NodeFailed{0, cause});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  const std::string messages = job.to<wire::CoordinatorEnds>(7)[0].cause.text;
  CHECK(messages.size() <= 500);
  CHECK(messages.starts_with("rank 2: \\x1b[2Jxxx"));
  const wire::Cause heard = job.to<wire::CoordinatorEnds>(7)[0].cause;
  CHECK(heard.node.size() <= 500);
  CHECK(heard.not_restarted.size() <= 500);
  CHECK(heard.exit_code == 1);
}

TEST_CASE("nodes that join and leave without taking part produce a limited number of log lines") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  Job job(options);
  for (NodeId id = 10; id < 400; ++id) {
    wire::NodeHello hello = node("b");
    hello.alike["VARIABLE_" + std::to_string(id)] = "1";
    job.says(id, hello).loses(id);
  }
  CHECK(job.to<wire::CoordinatorBegins>(kOwnNode).empty());
  CHECK(job.messages().size() == 5);
}

TEST_CASE("nodes with equal host names get different display names") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  Job job(options);
  wire::NodeHello same = node("a");
  same.nodes = node("a").nodes;
  job.comes(7, same).comes(8, same);
  REQUIRE(job.to<wire::CoordinatorBegins>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(8)[0].nodes ==
        "a (ranks 0-1), a#2 (ranks 2-3, 10.0.0.7), a#3 (ranks 4-5, 10.0.0.8)");
  job.says(8, wire::NodeFailed{0, failure()});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.node == "a#3");
}

TEST_CASE("a node that does not match the job is refused with the difference") {
  CoordinatorOptions options;
  options.nodes.rank = 0;
  const auto why = [&](const std::function<void(wire::NodeHello&)>& change) {
    Job job(options, 0);
    wire::NodeHello hello = node("b", 1);
    change(hello);
    job.comes(7, hello);
    CHECK(job.count<CloseNode>() == job.to<wire::CoordinatorRefuses>(7).size());
    return job.to<wire::CoordinatorRefuses>(7).empty() ? "" : job.to<wire::CoordinatorRefuses>(7)[0].why;
  };
  CHECK(why([](wire::NodeHello&) {}).empty());
  CHECK(why([](wire::NodeHello& h) { h.version = wire::kControlVersion + 1; }) ==
        "it runs another version of ddplaunch");
  CHECK(why([](wire::NodeHello& h) { h.job = "k"; }) == "it belongs to job 'k', and this is job 'j' (--rdzv-id)");
  CHECK(why([](wire::NodeHello& h) { h.nodes = "3"; }) == "it has --nnodes=3, and the first node has 2");
  CHECK(why([](wire::NodeHello& h) { h.same["program train"] = "bb"; }) ==
        "it would run another program (program train: bb on b, aa11 on a)");
  CHECK(why([](wire::NodeHello& h) { h.same.clear(); }).find("nothing on b") != std::string::npos);
  CHECK(why([](wire::NodeHello& h) { h.node_rank = 0; }) == "node a already has --node-rank=0");
  for (const int workers : {0, -3, 1 << 30}) {
    CHECK(why([&](wire::NodeHello& h) { h.workers = workers; }).find("which no launcher sends") != std::string::npos);
  }
  CHECK(why([](wire::NodeHello& h) { h.node_rank = -7; }).find("which no launcher sends") != std::string::npos);
  CHECK(why([](wire::NodeHello& h) { h.node_rank = 2; }) ==
        "it has --node-rank=2, but the job has only 2 nodes, counted from 0");
  CHECK(why([](wire::NodeHello& h) { h.node_rank = -1; }) ==
        "it has no --node-rank, but the first node has one. Give it to all nodes or to none");
}

TEST_CASE("a node rank stays reserved for its silent node until that node is given up") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  options.nodes.rank = 0;
  Job job(options, 0);
  job.comes(7, node("b", 1)).passes(1s, {7}).comes(8, node("b", 1));
  CHECK(job.to<wire::CoordinatorRefuses>(8).size() == 1);
  job.passes(3s).comes(9, node("b", 1));
  CHECK(job.to<wire::CoordinatorRefuses>(9).empty());
  CHECK(job.count<CloseNode>() == 2);
  job.passes(8s).comes(10, node("b", 1)).comes(11, node("c", 2));
  CHECK(job.to<wire::CoordinatorBegins>(10).size() == 1);
}

TEST_CASE("a job without restarts refuses an extra node") {
  Job job;
  job.comes(7, node("b")).comes(8, node("c"));
  REQUIRE(job.to<wire::CoordinatorRefuses>(8).size() == 1);
  CHECK_THAT(job.to<wire::CoordinatorRefuses>(8)[0].why, Catch::StartsWith("the job has all of its nodes"));
}

TEST_CASE("an attempt that leaves processes behind is the last one") {
  CoordinatorOptions options;
  options.max_restarts = 3;
  Job job(options);
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure()});
  job.says(7, wire::NodeFailed{0, {.text = "rank 5 cannot be killed", .exit_code = 3}}).says(7, wire::NodeEnded{0});
  job.says(kOwnNode, wire::NodeEnded{0});
  REQUIRE(job.to<wire::CoordinatorIsDone>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.text == "rank 5: exited with code 3");
  CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.not_restarted == "not restarted: node b: rank 5 cannot be killed");
}

TEST_CASE("a client that does not send its hello first is disconnected") {
  Job job;
  job.says(7, wire::NodeHeartbeat{});
  CHECK(job.count<CloseNode>() == 1);
  job.comes(8, node("b")).says(8, wire::NodeHeartbeat{});
  CHECK(job.count<CloseNode>() == 1);
}

TEST_CASE("the list of many nodes is shortened in messages to all nodes") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 100;
  Job job(options);
  for (NodeId id = 2; id < 101; ++id) job.comes(id, node("n" + std::to_string(id)));
  REQUIRE(job.to<wire::CoordinatorBegins>(100).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(100)[0].world_size == 200);
  CHECK_THAT(job.to<wire::CoordinatorBegins>(100)[0].nodes, Catch::EndsWith(", … and 84 more"));
}

TEST_CASE("a setting that should be equal on all nodes is reported once if it differs") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 3;
  Job job(options);
  wire::NodeHello other = node("b");
  other.alike["NCCL_P2P_DISABLE"] = "1";
  job.comes(7, other).comes(8, other);
  CHECK(job.messages() == std::vector<std::string>{"nodes differ: NCCL_P2P_DISABLE is '1' on b and '' on a"});
}

TEST_CASE("waiting for nodes is reported and limited in time") {
  Job job;
  job.passes(4s);
  CHECK(job.messages() == std::vector<std::string>{"waiting for 1 of 2 nodes (have: a; 3.0 s of 1 min)"});
  job.passes(60s);
  REQUIRE(job.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode)[0].cause.text == "only 1 node of 2 joined within 1 min (a)");
  CHECK(job.count<CoordinatorIsThrough>() >= 1);
}

TEST_CASE("a job with a range of nodes begins after the last call") {
  CoordinatorOptions options;
  options.nodes.min = 2;
  options.nodes.max = 4;
  options.nodes.last_call = 5s;
  Job job(options);
  job.comes(7, node("b")).passes(4s, {7});
  job.comes(8, node("c")).passes(4s, {7, 8});
  CHECK(job.to<wire::CoordinatorBegins>(7).empty());
  job.passes(2s, {7, 8});
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].node_count == 3);
}

TEST_CASE("a job whose nodes were checked waits only a moment for others") {
  CoordinatorOptions options;
  options.nodes.min = 2;
  options.nodes.max = 4;
  options.nodes.last_call = 30s;
  options.nodes.expected = 3;
  Job job(options);
  job.comes(7, node("b")).passes(9s, {7});
  CHECK(job.to<wire::CoordinatorBegins>(7).empty());
  job.comes(8, node("c")).passes(2s, {7, 8});
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].node_count == 3);
}

TEST_CASE("a node that comes to a check too late looks again and finds the job") {
  CoordinatorOptions options;
  options.nodes.is_check = true;
  Job check(options);
  check.comes(7, node("b")).comes(8, node("c"));
  CHECK(check.to<wire::CoordinatorRefuses>(8).empty());
  CHECK(check.count<CloseNode>() == 1);

  wire::NodeHello late = node("c");
  late.job = name_of_check(late.job);
  Job job;
  job.comes(7, node("b")).comes(8, late);
  REQUIRE(job.to<wire::CoordinatorRefuses>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorRefuses>(8)[0].why == "it has come too late for the check");
  const auto is_about_late = [](const std::string& line) { return line.find("refused") != std::string::npos; };
  CHECK(std::ranges::none_of(job.messages(), is_about_late));
}

TEST_CASE("attempts go on with the numbers of an earlier start") {
  CoordinatorOptions options;
  options.attempts_before = 2;
  Job job(options);
  job.comes(7, node("b"));
  REQUIRE(job.to<wire::CoordinatorBegins>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(7)[0].attempt == 2);
}

TEST_CASE("the first cause ends the job on all nodes") {
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure()});
  const wire::Cause cause{.text = "rank 5: exited with code 3", .node = "b", .exit_code = 3, .may_restart = true};
  CHECK(job.to<wire::CoordinatorEnds>(kOwnNode) == std::vector{wire::CoordinatorEnds{0, cause}});
  CHECK(job.to<wire::CoordinatorEnds>(7) == std::vector{wire::CoordinatorEnds{0, cause}});
  job.says(kOwnNode, wire::NodeFailed{0, failure("rank 0: killed by SIGABRT")});
  job.says(7, wire::NodeEnded{0});
  CHECK(job.to<wire::CoordinatorIsDone>(7).empty());
  job.says(kOwnNode, wire::NodeEnded{0});
  CHECK(job.to<wire::CoordinatorIsDone>(7) == std::vector{wire::CoordinatorIsDone{cause}});
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode) == std::vector{wire::CoordinatorIsDone{cause}});
  CHECK(job.count<CoordinatorIsThrough>() == 0);
  job.loses(7);
  CHECK(job.count<CoordinatorIsThrough>() == 1);
}

TEST_CASE("the end of a job waits for a silent node until the node timeout") {
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeEnded{0}).passes(6s);
  job.says(kOwnNode, wire::NodeEnded{0});
  REQUIRE(job.to<wire::CoordinatorIsDone>(7).size() == 1);
  job.passes(3s);
  CHECK(job.count<CoordinatorIsThrough>() == 0);
  job.passes(1s);
  CHECK(job.count<CoordinatorIsThrough>() == 1);
}

TEST_CASE("a secondary failure waits for a better cause") {
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure("rank 5: exited with code 1", true)});
  CHECK(job.to<wire::CoordinatorEnds>(7).empty());
  job.passes(100ms).says(kOwnNode, wire::NodeFailed{0, failure("rank 0: killed by SIGSEGV")});
  REQUIRE(job.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorEnds>(7)[0].cause.text == "rank 0: killed by SIGSEGV");
  Job alone;
  alone.comes(7, node("b")).says(7, wire::NodeFailed{0, failure("rank 5: exited with code 1", true)}).passes(3s);
  REQUIRE(alone.to<wire::CoordinatorEnds>(7).size() == 1);
  CHECK(alone.to<wire::CoordinatorEnds>(7)[0].cause.text == "rank 5: exited with code 1");
}

TEST_CASE("a node that leaves or falls silent during the job is the cause") {
  Job left;
  left.comes(7, node("b")).loses(7);
  REQUIRE(left.to<wire::CoordinatorEnds>(kOwnNode).size() == 1);
  CHECK(left.to<wire::CoordinatorEnds>(kOwnNode)[0].cause.text == "lost: it has closed the connection");
  CHECK(left.to<wire::CoordinatorEnds>(kOwnNode)[0].cause.exit_code == 125);
  Job silent;
  silent.comes(7, node("b")).passes(9s);
  CHECK(silent.to<wire::CoordinatorEnds>(kOwnNode).empty());
  silent.passes(2s);
  REQUIRE(silent.to<wire::CoordinatorEnds>(kOwnNode).size() == 1);
  CHECK(silent.to<wire::CoordinatorEnds>(kOwnNode)[0].cause.text == "lost: it has sent nothing for 10.0 s");
}

TEST_CASE("a node that is lost repeatedly is quarantined, also if it reports the loss itself") {
  CoordinatorOptions options;
  options.max_restarts = 3;
  options.nodes.max = 2;
  Job job(options);
  const wire::Cause lost{.text = "lost", .exit_code = 125, .may_restart = true, .code = wire::CauseCode::lost_node};
  NodeId id = 7;
  for (int attempt = 0; attempt < 2; ++attempt) {
    job.comes(++id, node("b")).passes(20s, {id});
    REQUIRE(job.to<wire::CoordinatorBegins>(id).size() == 1);
    job.says(id, wire::NodeFailed{attempt, lost}).loses(id).says(kOwnNode, wire::NodeEnded{.attempt = attempt});
    job.passes(1s);
  }
  job.comes(++id, node("b")).passes(1s, {id});
  CHECK(job.to<wire::CoordinatorBegins>(id).empty());
  CHECK(job.to<wire::CoordinatorWaits>(id).at(0).text.starts_with("this node was lost repeatedly"));
}

TEST_CASE("the time during which a node is silent does not count as time of the attempt") {
  CoordinatorOptions options;
  options.max_restarts = 100;
  options.nodes.min = 1;
  options.nodes.max = 2;
  options.nodes.last_call = 1s;
  Job job(options);
  std::vector<std::string> delays;
  for (int attempt = 0; attempt < 3; ++attempt) {
    // 15 s with a silence of 10 s are 5 s, which are too few for an attempt whose steps are not seen.
    const NodeId id = 10 + attempt;
    job.comes(id, node("host" + std::to_string(id))).passes(5s, {id}).passes(11s);
    job.says(kOwnNode, wire::NodeEnded{.attempt = attempt});
    const auto news = job.to<wire::CoordinatorRestarts>(kOwnNode);
    REQUIRE(news.size() == static_cast<std::size_t>(attempt) + 1);
    delays.push_back(news.back().text);
    job.passes(500ms);
  }
  CHECK(delays[0].starts_with("restart in 0.1 s"));
  CHECK(delays[1].starts_with("restart in 0.3 s"));
  CHECK(delays[2].starts_with("restart in 0.9 s"));
}

TEST_CASE("a job that succeeds on all nodes is a success") {
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeEnded{0}).says(kOwnNode, wire::NodeEnded{0});
  CHECK(job.to<wire::CoordinatorIsDone>(7) == std::vector{wire::CoordinatorIsDone{}});
  CHECK(job.to<wire::CoordinatorEnds>(7).empty());
}

TEST_CASE("the next attempt begins when all nodes have ended, and a waiting node takes a free place") {
  CoordinatorOptions options;
  options.max_restarts = 1;
  Job job(options);
  job.comes(7, node("b")).comes(8, node("c"));
  CHECK(job.to<wire::CoordinatorWaits>(8).size() == 1);
  job.loses(7).says(kOwnNode, wire::NodeEnded{0});
  CHECK(
      job.to<wire::CoordinatorRestarts>(8) ==
      std::vector{wire::CoordinatorRestarts{"restart in 0.1 s; the loss of a node does not count in --max-restarts"}});
  job.passes(1s, {8});
  REQUIRE(job.to<wire::CoordinatorBegins>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorBegins>(8)[0].attempt == 1);
  // A message about the previous attempt is ignored.
  job.says(8, wire::NodeFailed{0, failure()});
  CHECK(job.to<wire::CoordinatorEnds>(8).empty());
  const auto fails = [&](int attempt) {
    job.says(8, wire::NodeFailed{attempt, failure()});
    job.says(8, wire::NodeEnded{attempt}).says(kOwnNode, wire::NodeEnded{attempt});
  };
  fails(1);
  CHECK(job.to<wire::CoordinatorRestarts>(8).back().text.starts_with("restart 1 of 1"));
  job.passes(1s, {8});
  fails(2);
  REQUIRE(job.to<wire::CoordinatorIsDone>(8).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(8)[0].cause.text == "rank 5: exited with code 3");
  CHECK(job.to<wire::CoordinatorIsDone>(8)[0].cause.not_restarted == "ddplaunch gave up after 1 restart");
}

TEST_CASE("a second request reaches each node that still runs once, and the cause is kept") {
  wire::Cause asked{.text = "terminated by SIGINT", .exit_code = 130, .signal = 2};
  Job job;
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure()});
  asked.is_urgent = true;
  job.says(7, wire::NodeFailed{0, asked}).says(7, wire::NodeFailed{0, asked});
  for (const NodeId id : {kOwnNode, NodeId{7}}) {
    const auto ends = job.to<wire::CoordinatorEnds>(id);
    REQUIRE(ends.size() == 2);
    CHECK_FALSE(ends[0].cause.is_urgent);
    CHECK(ends[1].cause.is_urgent);
    CHECK(ends[1].cause.text == ends[0].cause.text);
  }
}

TEST_CASE("a signal on a node whose workers have exited prevents a restart") {
  const wire::Cause asked{.text = "terminated by SIGINT", .exit_code = 130, .signal = 2};
  CoordinatorOptions options;
  options.max_restarts = 3;
  SECTION("while those of others are being ended") {
    Job job(options);
    job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure()}).says(7, wire::NodeEnded{0});
    job.says(7, wire::NodeFailed{0, asked}).says(7, wire::NodeFailed{0, asked}).says(kOwnNode, wire::NodeEnded{0});
    REQUIRE(job.to<wire::CoordinatorIsDone>(7).size() == 1);
    CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.text == "rank 5: exited with code 3");
    CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.not_restarted ==
          "not restarted: the job was asked to stop meanwhile");
    CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.exit_code == 3);
  }
  SECTION("before the next attempt, and in it") {
    for (const auto late : {0s, 1s}) {
      Job job(options);
      job.comes(7, node("b")).says(7, wire::NodeFailed{0, failure()}).says(7, wire::NodeEnded{0});
      job.says(kOwnNode, wire::NodeEnded{0}).passes(late, {7});
      job.says(7, wire::NodeFailed{0, asked}).says(7, wire::NodeEnded{1}).says(kOwnNode, wire::NodeEnded{1});
      REQUIRE(job.to<wire::CoordinatorIsDone>(7).size() == 1);
      CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.text == "terminated by SIGINT");
    }
  }
}

TEST_CASE("a signal on any node ends the job on all nodes") {
  const wire::Cause asked{.text = "terminated by SIGTERM", .exit_code = 143, .signal = 15};
  CoordinatorOptions options;
  options.max_restarts = 3;
  Job job(options);
  job.comes(7, node("b")).says(7, wire::NodeFailed{0, asked}).says(7, wire::NodeEnded{0});
  job.says(kOwnNode, wire::NodeEnded{0});
  REQUIRE(job.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(kOwnNode)[0].cause.exit_code == 143);
  // The same holds while the job waits for other nodes.
  Job waiting;
  waiting.says(kOwnNode, wire::NodeFailed{0, asked});
  CHECK(waiting.to<wire::CoordinatorIsDone>(kOwnNode).size() == 1);
  waiting.comes(7, node("b"));
  // The next job may use this endpoint, so a node that comes now continues to look for it.
  CHECK(waiting.to<wire::CoordinatorRefuses>(7).empty());
  CHECK(waiting.count<CloseNode>() == 1);
}

TEST_CASE("the waiting message lists the missing node ranks") {
  CoordinatorOptions options;
  options.nodes.min = options.nodes.max = 4;
  options.nodes.rank = 0;
  Job job(options, 0);
  job.comes(7, node("c", 2)).passes(61s, {7});
  REQUIRE_FALSE(job.messages().empty());
  CHECK(job.messages()[0] == "waiting for 2 of 4 nodes (have: a, c; missing: --node-rank 1, 3; 3.0 s of 1 min)");
  REQUIRE(job.to<wire::CoordinatorIsDone>(7).size() == 1);
  CHECK(job.to<wire::CoordinatorIsDone>(7)[0].cause.text ==
        "only 2 nodes of 4 joined within 1 min (a, c; missing: --node-rank 1, 3)");
}
