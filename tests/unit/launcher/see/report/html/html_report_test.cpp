#include "launcher/see/report/html/html_report.h"

#include <algorithm>
#include <regex>

#include "launcher/see/report/html/html_text.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Catch::Contains;

namespace {

const std::string kHostile = "</script><img src=x onerror=alert(1)>\xff\xe2\x80\xa8\"'&";

AttemptHistory history_of(int ranks) {
  AttemptHistory history;
  history.seconds = 40;
  history.columns = 4;
  history.column_seconds = 10;
  history.waited_for_columns = 2;
  history.waited_for_column_seconds = 20;
  for (int rank = 0; rank < ranks; ++rank) {
    RankHistory each{.rank = rank, .node = "node" + std::to_string(rank / 4), .strip = "c k5w5*2 e"};
    each.seconds = {0, 10, 10, 10, 0, 0, 10};
    each.steps = 100;
    each.step_median = 0.1;
    history.ranks.push_back(each);
  }
  history.ranks.back().waited_for = "0 10";
  history.ranks.back().waited_for_seconds = 20;
  CollectiveHistory row;
  row.operation = "all_reduce";
  row.name = "bucket 0";
  row.group = "world";
  row.size = ranks;
  row.count = row.matched = 10;
  row.bytes = 1 << 20;
  row.median = 1e-3;
  row.bus_rate = 2e9;
  row.last_rank = ranks - 1;
  row.last_count = 9;
  history.collectives.push_back(row);
  return history;
}

RunRecord failed_run(int ranks) {
  RunRecord run;
  run.run_id = "r1";
  run.version = "0.1.0";
  run.node = "node0";
  run.started = "2026-11-21T08:43:22.123Z";
  run.arguments = {"/usr/bin/python3", "-u", "/home/me/train.py"};
  run.command_line = {"ddplaunch", "--nproc-per-node=4", "train.py", "two words"};
  run.variables = {"NCCL_DEBUG=IN FO", "HF_TOKEN=***", "SLURM_JOB_ID=7"};
  run.directory = "/home/me";
  run.exit_code = 3;
  run.seconds = 41;
  run.workers = 4;
  run.messages = {{2, "node0", "warning", "node1 has another NCCL_DEBUG"}};
  AttemptRecord attempt;
  attempt.end = 40.5;
  attempt.world_size = ranks;
  attempt.nodes = {{"node0", 0, 4}, {"node1", 4, 4}};
  attempt.exit_code = 3;
  attempt.cause = "worker_failed";
  attempt.text = {"rank 1 (pid 4712) failed: exit code 3", "  its last lines:", "  | boom"};
  attempt.culprits = {1};
  attempt.last_lines = {"boom"};
  attempt.workers = {
      {.rank = 1, .node = "node0", .pid = 4712, .end = "exit code 3", .ended = 40, .error = "ValueError"}};
  attempt.stalls = {{.time = 30,
                     .state = "stalled",
                     .text = {"rank 1 has not called"},
                     .stacks = {{{1}, "main", {"pause", "main (a.cpp:3)"}}}}};
  attempt.history = history_of(ranks);
  run.attempts.push_back(attempt);
  return run;
}

// Returns the names of elements that are open at the end, or closed without having been opened.
std::string unbalanced(const std::string& html) {
  static const std::regex kTag("<(/?)([a-z0-9]+)((?:[^>\"]|\"[^\"]*\")*?)(/?)>");
  const std::vector<std::string> empty_elements = {"meta", "input", "br"};
  std::vector<std::string> open;
  const std::size_t style = html.find("<style>");
  const std::string body = html.substr(0, style) + html.substr(html.find("</style>") + 8);
  const std::string text = body.substr(0, body.find("<script>"));
  for (std::sregex_iterator match(text.begin(), text.end(), kTag), end; match != end; ++match) {
    const std::string name = (*match)[2];
    if (std::ranges::find(empty_elements, name) != empty_elements.end() || (*match)[4] == "/") continue;
    if ((*match)[1] == "") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> after " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open == std::vector<std::string>{"html", "body"} ? "" : "open: " + std::to_string(open.size());
}

}  // namespace

TEST_CASE("an HTML report shows the verdict first") {
  const std::string html = html_report(failed_run(8));
  std::size_t last = 0;
  for (const char* text : {"rank 1 (pid 4712) failed: exit code 3", "| boom", "attempt 0", "node node1", "id=rank-7",
                           "Ranks that others waited for", "The ranks in numbers", "bucket 0",
                           "node1 has another NCCL_DEBUG", "main (a.cpp:3)", "Last lines", "How it was started",
                           "cd /home/me &amp;&amp; NCCL_DEBUG=&#39;IN FO&#39; ddplaunch --nproc-per-node=4 train.py "
                           "&#39;two words&#39;"}) {
    CAPTURE(text);
    const std::size_t place = html.find(text, last);
    REQUIRE(place != std::string::npos);
    last = place;
  }
  CHECK(unbalanced(html) == "");
  CHECK_THAT(html, Contains("Culprit: <a href=\"#rank-1\">rank 1</a> on node node0, pid 4712"));
  CHECK_THAT(html, Contains("<title>train.py failed"));
  CHECK_THAT(html, Contains("d=\"M0 10V0h3V10h1V10z\""));  // waiting covers the whole height, until the end
  CHECK_THAT(html, Contains("default-src 'none'"));
  CHECK(html.find("http:") == std::string::npos);
  CHECK(html.find("https:") == std::string::npos);
}

TEST_CASE("an HTML report of a successful run says so") {
  RunRecord run = failed_run(2);
  run.exit_code = 0;
  run.attempts[0].exit_code = 0;
  run.attempts[0].cause = "";
  run.attempts[0].text.clear();
  run.attempts[0].culprits.clear();
  const std::string html = html_report(run);
  CHECK_THAT(html, Contains("The job succeeded."));
  CHECK(html.find("Culprit") == std::string::npos);
}

TEST_CASE("hostile texts in an HTML report stay plain text") {
  RunRecord run = failed_run(2);
  for (std::string* text : {&run.run_id,
                            &run.version,
                            &run.node,
                            &run.started,
                            &run.directory,
                            &run.system,
                            &run.nodes,
                            &run.log_directory,
                            &run.attempts[0].core,
                            &run.attempts[0].log_file,
                            &run.attempts[0].cause,
                            &run.attempts[0].next,
                            &run.attempts[0].nodes[0].name,
                            &run.attempts[0].recording,
                            &run.messages[0].level,
                            &run.messages[0].text,
                            &run.messages[0].node,
                            &run.attempts[0].workers[0].end,
                            &run.attempts[0].workers[0].gpu,
                            &run.attempts[0].workers[0].error,
                            &run.attempts[0].workers[0].node,
                            &run.attempts[0].stalls[0].state,
                            &run.attempts[0].stalls[0].code,
                            &run.attempts[0].stalls[0].stacks[0].thread,
                            &run.attempts[0].history->ranks[0].node,
                            &run.attempts[0].history->ranks[0].strip,
                            &run.attempts[0].history->ranks[1].waited_for,
                            &run.attempts[0].history->collectives[0].operation,
                            &run.attempts[0].history->collectives[0].name,
                            &run.attempts[0].history->collectives[0].group}) {
    *text = kHostile;
  }
  for (std::vector<std::string>* texts :
       {&run.arguments, &run.command_line, &run.variables, &run.text, &run.missing, &run.attempts[0].text,
        &run.attempts[0].last_lines, &run.attempts[0].stalls[0].text, &run.attempts[0].stalls[0].stacks[0].frames}) {
    *texts = {kHostile, kHostile};
  }
  for (int i = 0; i < 2; ++i) {
    const std::string html = html_report(run);
    CHECK(html.find("<img") == std::string::npos);
    CHECK(html.find('\xff') == std::string::npos);
    CHECK(html.find("\xe2\x80\xa8") == std::string::npos);
    std::size_t scripts = 0;
    for (std::size_t at = html.find("</script"); at != std::string::npos; at = html.find("</script", at + 1)) ++scripts;
    CHECK(scripts == 2);
    CHECK(unbalanced(html) == "");
    run.text.clear();  // the attempt's text is shown instead
  }
}

TEST_CASE("an HTML report of an empty record is a valid page") {
  CHECK(unbalanced(html_report(RunRecord())) == "");
  CHECK_THAT(html_report(RunRecord()), Contains("The end of the job is not known."));
  RunRecord run = failed_run(1);
  run.attempts[0].history->columns = 0;
  run.attempts[0].history->column_seconds = 0;
  run.seconds = 0;
  run.attempts[0].end = 0;
  CHECK(unbalanced(html_report(run)) == "");
  run.attempts[0].history.reset();
  CHECK_THAT(html_report(run), Contains("<tr data-rank=1 data-node=\"node0\" id=rank-1>"));  // the target of links
}

TEST_CASE("the report of a thousand ranks is smaller than 5 MB") {
  RunRecord run = failed_run(1000);
  std::string strip;
  for (int i = 0; i < 500; ++i)
    strip += (i > 0 ? " c" : "c") + std::to_string(1 + i % 4) + "k3w" + std::to_string(6 - i % 4);
  AttemptHistory& history = *run.attempts[0].history;
  history.columns = 500;
  for (RankHistory& rank : history.ranks) rank.strip = strip;
  for (int attempt = 1; attempt < 5; ++attempt) {
    run.attempts.push_back(run.attempts[0]);
    run.attempts.back().number = attempt;
  }
  const std::string html = html_report(run);
  CHECK(html.size() < 5'000'000);
  CHECK_THAT(html, Contains("id=rank-999"));
  CHECK_THAT(html, Contains("Earlier attempts are left out"));
}

TEST_CASE("an HTML report shows the course of the training") {
  RunRecord run = failed_run(2);
  CHECK_THAT(html_report(run), !Contains("id=training"));
  run.attempts[0].history->curve_seconds = 10;
  run.attempts[0].history->curves = {
      {"loss", {4, std::nullopt, 2, 1.5}, {3, std::nullopt, 2, 1}, {5, std::nullopt, 2, 2}},
      {"steps/s", {std::nullopt, 10, 0, 0}, {}, {}},
      {"memory", {1 << 20, 1 << 20, 1 << 21, 1 << 21}, {}, {}},
      {kHostile, {1, 2}, {1, 2}, {1, 2}}};
  const std::string html = html_report(run);
  CHECK(unbalanced(html) == "");
  CHECK_THAT(html, Contains("<b>loss</b> <span class=soft>last 1.5</span>"));
  CHECK_THAT(html, Contains("<span class=high>5</span><span class=low>1</span>"));
  CHECK_THAT(html, Contains("median 10"));
  CHECK_THAT(html, Contains("last 2 MiB"));
  CHECK_THAT(html, Contains("M0 25h250M625 75L875 87.5"));  // a gap, and a point that stands alone
  CHECK_THAT(html, !Contains("<img"));
}

TEST_CASE("an HTML report of a successful run names the rank for which the others waited") {
  RunRecord run = failed_run(2);
  run.exit_code = 0;
  run.text.clear();
  run.attempts[0].cause.clear();
  run.attempts[0].text.clear();
  run.attempts[0].exit_code = 0;
  run.attempts[0].stalls.clear();
  CHECK_THAT(html_report(run),
             Contains("The others waited for <a href=\"#rank-1\">rank 1</a> during 50 % of the time."));
  run.attempts[0].history->ranks[0].waited_for_seconds = 15;
  CHECK_THAT(html_report(run), !Contains("The others waited for"));
}

TEST_CASE("the row of a culprit shows when the others waited for it") {
  RunRecord run = failed_run(2);
  run.attempts[0].stalls[0].culprits = {1};
  run.attempts[0].stalls[0].age = 10;
  CHECK_THAT(html_report(run), Contains("<i class=stall style=\"left:50%;width:50%\""));
  run.attempts[0].stalls.push_back({.time = 32, .state = "goes_on"});
  CHECK_THAT(html_report(run), Contains("<i class=stall style=\"left:50%;width:30%\""));
}

TEST_CASE("an HTML report shows two runs side by side") {
  RunRecord one = failed_run(2);
  RunRecord other = failed_run(2);
  one.attempts[0].history->curve_seconds = other.attempts[0].history->curve_seconds = 10;
  one.attempts[0].history->curves = {{"loss", {4, 2}, {4, 2}, {4, 2}}};
  other.attempts[0].history->curves = {{"loss", {4, 1}, {4, 1}, {4, 1}}};
  for (RankHistory& rank : other.attempts[0].history->ranks) rank.step_median = 0.05;
  other.run_id = kHostile;
  const std::string html = html_comparison(one, other);
  CHECK(unbalanced(html) == "");
  CHECK_THAT(html, Contains("<td>step, median</td>"));
  CHECK_THAT(html, Contains("−50 %"));
  CHECK_THAT(html, Contains("A 2, B 1"));
  CHECK_THAT(html, Contains("all_reduce &#39;bucket 0&#39; in world"));
  CHECK_THAT(html, !Contains("<img"));
  other.attempts[0].history.reset();
  CHECK_THAT(html_comparison(one, other), Contains("The event log of run B contains no history"));
}
