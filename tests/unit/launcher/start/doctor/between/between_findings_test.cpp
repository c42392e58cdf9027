#include "launcher/start/doctor/between/between_findings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.h"
#include "unit/launcher/start/doctor/between/made_job.h"

using namespace ddp::launcher::doctor;

namespace {

// Returns the findings that are not ok, as "FAIL reach: …".
std::vector<std::string> troubles(const JobRecord& job, int expected = 3) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings_between(job, expected)) {
    if (finding.grade == Grade::ok) continue;
    CHECK_FALSE((finding.grade != Grade::unknown && finding.remedy.empty()));
    const char* const names[] = {"ok", "unknown", "warn", "FAIL"};
    texts.push_back(std::string(names[static_cast<int>(finding.grade)]) + " " + finding.check + ": " + finding.text);
  }
  return texts;
}

std::string trouble(const JobRecord& job) {
  const std::vector<std::string> texts = troubles(job);
  CAPTURE(texts);
  REQUIRE(texts.size() == 1);
  return texts.front();
}

void set_ports(JobRecord& job, int from, int to, Reach reach, Reach endpoint) {
  Path& path = path_of(job, from, to);
  path.ports.assign(3, reach);
  path.endpoint_port = endpoint;
  path.large = path.small = Flow::unknown;
  path.why = "No route to host";
}

}  // namespace

TEST_CASE("the doctor finds nothing wrong between healthy nodes") {
  for (const int nodes : {2, 3, 7}) CHECK(troubles(healthy_job(nodes), nodes).empty());
  const Findings findings = findings_between(healthy_job(3), 3);
  CHECK(findings[0].text == "each node reaches all others, on 3 ports that the kernel has chosen (6 ways)");
  CHECK(findings[1].text == "many bytes at once arrive, and an answer takes 0.05 ms to 0.05 ms");
  CHECK(findings[2].text == "they differ by at most 1.00 ms");
}

TEST_CASE("the doctor names the ways on which ports are closed") {
  JobRecord job = healthy_job(3);
  for (const int from : {0, 1}) set_ports(job, from, 2, Reach::refused, Reach::refused);
  CHECK_THAT(trouble(job), Catch::StartsWith("FAIL reach: all other nodes → node 2 (c): 10.0.0.3 refuses connections"));
  CHECK(nodes_to_leave_out(job, 3) == std::vector{2});

  job = healthy_job(3);
  set_ports(job, 1, 2, Reach::dropped, Reach::dropped);
  CHECK_THAT(trouble(job),
             Catch::StartsWith("FAIL reach: node 1 (b) → node 2 (c): no answer from 10.0.0.3 within 4 s"));

  job = healthy_job(3);
  set_ports(job, 1, 2, Reach::dropped, Reach::open);
  CHECK_THAT(trouble(job), Catch::EndsWith("of node 2 (c), only the port at which the nodes meet is open. A firewall "
                                           "drops packets to all others"));
  job = healthy_job(3);
  set_ports(job, 1, 0, Reach::unreachable, Reach::unreachable);
  CHECK(trouble(job) ==
        "FAIL reach: node 1 (b) → node 0 (a): 10.0.0.1: No route to host. A route is missing, or a "
        "firewall rejects packets");
  // Only the first node needs the port at which the nodes meet.
  job = healthy_job(3);
  path_of(job, 0, 1).endpoint_port = Reach::refused;
  CHECK(troubles(job).empty());

  job = healthy_job(3);
  path_of(job, 1, 0).ports[1] = Reach::foreign;
  CHECK_THAT(trouble(job), Catch::Contains("something else answers at 10.0.0.1"));
  path_of(job, 1, 0).ports[1] = Reach::silent;
  CHECK_THAT(trouble(job), Catch::Contains("10.0.0.1 accepts connections, and no answer arrives"));
}

TEST_CASE("datagrams show in which direction packets are lost") {
  JobRecord job = healthy_job(3);
  for (const auto& [from, to] : {std::pair(1, 2), std::pair(2, 1)}) {
    set_ports(job, from, to, Reach::dropped, Reach::dropped);
    path_of(job, from, to).datagrams = 0;
  }
  CHECK_THAT(trouble(job),
             Catch::StartsWith("FAIL reach: node 1 (b) ↔ node 2 (c): nothing arrives, in either direction"));
  path_of(job, 1, 2).datagrams = 49;  // those of node 2 arrive at node 1
  CHECK_THAT(trouble(job),
             Catch::StartsWith("FAIL reach: node 1 (b) → node 2 (c): packets from node 1 (b) never arrive"));
  // Without sockets for datagrams, nothing is known about the direction.
  job.addresses[1].datagram_port = job.addresses[2].datagram_port = 0;
  CHECK(troubles(job).size() == 2);
}

TEST_CASE("the doctor names the way that loses large packets, whichever node notices it") {
  JobRecord job = healthy_job(3);
  path_of(job, 0, 1).large = Flow::lost_there;
  path_of(job, 1, 0).large = Flow::lost_back;
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0)}) path_of(job, from, to).small = Flow::arrives;
  CHECK_THAT(trouble(job), Catch::StartsWith("FAIL packets: node 0 (a) → node 1 (b): large packets never arrive"));
  path_of(job, 0, 1).small = Flow::lost_there;
  path_of(job, 1, 0).small = Flow::lost_back;
  CHECK_THAT(trouble(job), Catch::StartsWith("FAIL packets: node 0 (a) → node 1 (b): 256 KiB at once do not arrive"));
}

TEST_CASE("the doctor warns of lost packets, clocks and names") {
  JobRecord job = healthy_job(3);
  path_of(job, 2, 0).datagrams = 44;
  CHECK(trouble(job) == "warn packets: node 0 (a) → node 2 (c): 6 of 50 packets were lost");
  path_of(job, 2, 0).datagrams = 46;
  CHECK(troubles(job).empty());
  path_of(job, 2, 0).datagrams = 0;  // a firewall may allow TCP alone
  CHECK(troubles(job).empty());

  job = healthy_job(3);
  path_of(job, 0, 2).clock_ahead_s = -7.2;
  CHECK(trouble(job) == "warn clocks: the clock of node 2 (c) is 7.2 s behind that of node 0 (a)");

  job = healthy_job(3);
  path_of(job, 1, 2).name_means = {"10.9.0.3"};
  CHECK(trouble(job) == "warn names: the name c means 10.0.0.3 on node 0 (a), and 10.9.0.3 on node 1 (b)");
  path_of(job, 1, 2).name_means = {"10.0.0.3", "10.9.0.3"};  // a second network
  CHECK(troubles(job).empty());
  path_of(job, 1, 2).name_means = {};
  CHECK(troubles(job).empty());
}

TEST_CASE("the doctor shows how nodes differ, and warns of what matters") {
  JobRecord job = healthy_job(3);
  job.findings[1].facts = {{"NCCL", "2.28.3", true}, {"kernel", "6.1", false}};
  CHECK(trouble(job) == "warn differences: NCCL differs: 2.27.3 on node 0 (a), node 2 (c), 2.28.3 on node 1 (b)");
  const std::vector<Difference> all = differences(job);
  REQUIRE(all.size() == 2);
  CHECK(all[1].name == "kernel");
  CHECK(all[1].values[0].value.empty());
  CHECK(all[1].values[0].nodes == std::vector{0, 2});
}

TEST_CASE("the doctor warns if the directory of the checkpoints is not the same on all nodes") {
  JobRecord job = healthy_job(3);
  job.paths[2].shares_folder = false;
  CHECK(troubles(job).empty());  // none is named
  job.findings[0].folder = "/data";
  CHECK(trouble(job) == "warn checkpoints: /data is another directory on node 2 (c) than on the first node");
}

TEST_CASE("a node that has not answered in time is named") {
  JobRecord job = healthy_job(3);
  job.paths.pop_back();
  CHECK_THAT(trouble(job), Catch::StartsWith("FAIL answers: node 2 (c) has not answered in time"));
  CHECK(nodes_to_leave_out(job, 3) == std::vector{2});
  job.addresses.clear();
  CHECK(troubles(job).size() == 1);
}

TEST_CASE("many ways with trouble are not shown one by one") {
  JobRecord job = healthy_job(26);
  for (int node = 0; node < 24; ++node) set_ports(job, node, node + 1, Reach::refused, Reach::refused);
  const std::vector<std::string> texts = troubles(job, 26);
  REQUIRE(texts.size() == 9);
  CHECK(texts.back() == "FAIL reach: 16 more ways like these");
}

TEST_CASE("the nodes that are left out are those with most troubles, and the later ones of two") {
  JobRecord job = healthy_job(5);
  CHECK(nodes_to_leave_out(job, 5).empty());
  job.findings[3].findings.push_back({"memory", Grade::fail, "none", "buy some"});
  CHECK(nodes_to_leave_out(job, 5) == std::vector{3});
  set_ports(job, 0, 1, Reach::dropped, Reach::dropped);
  set_ports(job, 1, 2, Reach::dropped, Reach::dropped);
  CHECK(nodes_to_leave_out(job, 5) == std::vector{1, 3});
  job = healthy_job(4);
  set_ports(job, 1, 2, Reach::dropped, Reach::dropped);
  CHECK(nodes_to_leave_out(job, 4) == std::vector{2});
}

TEST_CASE("a slow node is named if it is slow with two partners") {
  JobRecord job = healthy_job(4);
  job.speeds = {{0, 1, 1e9, 1e9}, {2, 3, 4e8, 1e9}, {0, 3, 1e9, 4e8}, {1, 2, 1e9, 1e9}};
  CHECK_THAT(troubles(job, 4).front(), Catch::StartsWith("warn speed: node 3 (d) is slow with two partners"));
}

TEST_CASE("a record without the sound ways leads to the same decision") {
  JobRecord job = healthy_job(5);
  job.findings[3].findings.push_back({"memory", Grade::fail, "none", "buy some"});
  set_ports(job, 0, 1, Reach::dropped, Reach::dropped);
  set_ports(job, 1, 0, Reach::dropped, Reach::dropped);
  path_of(job, 0, 1).datagrams = 0;
  const JobRecord less = troubles_only(job);
  CHECK(nodes_to_leave_out(less, 5) == nodes_to_leave_out(job, 5));
  CHECK(nodes_to_leave_out(less, 5) == std::vector{1, 3});
  CHECK(less.paths.size() == 5);
  CHECK(less.paths[0].paths.size() == 1);
  CHECK(less.paths[2].paths.empty());
  CHECK(less.findings[0].findings.empty());
  const auto reach = [](const JobRecord& of) { return findings_between(of, 5).front(); };
  CHECK(reach(less) == reach(job));
  CHECK(troubles_only(healthy_job(3)).paths[1].paths.empty());
}
