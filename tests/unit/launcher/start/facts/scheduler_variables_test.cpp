#include "launcher/start/facts/scheduler_variables.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Names = std::vector<std::string>;

namespace {

ClusterRequest of(const std::vector<std::string>& lines) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    if (path == "/hosts") return "a slots=2\nb\nb\nc\n";
    if (path == "/empty") return "# nobody\n";
    if (path == "/nonsense") return "a\n$(b)\n";
    return std::nullopt;
  };
  return {"auto", lines, "me", read};
}

}  // namespace

TEST_CASE("an empty variable counts as unset") {
  const ClusterRequest request = of({"A=", "AB=1", "B=2=3"});
  const SchedulerVariables variables(request);
  CHECK_FALSE(variables.has("A"));
  CHECK(variables.find("AB") == "1");
  CHECK(variables.find("B") == "2=3");
  CHECK_FALSE(variables.has("C"));
}

TEST_CASE("the first variable that is set is used") {
  const ClusterRequest request = of({"B=2", "C=3"});
  SchedulerVariables variables(request);
  const auto number = variables.number({"A", "B", "C"}, 0, 9);
  REQUIRE(number);
  CHECK(number->value == 2);
  CHECK(number->source == "B");
  CHECK_FALSE(variables.number({"A"}, 0, 9));
  CHECK(variables.word({"A", "C"}) == "3");
  CHECK(variables.word({"A"}).empty());
  CHECK_FALSE(variables.failure());
}

TEST_CASE("a variable that is not a number is an error with its name and value") {
  for (const std::string value : {"x", "1x", " 1", "+1", "-1", "1.5", "70000", "99999999999999999999", "\x1b"}) {
    const ClusterRequest request = of({"A=" + value});
    SchedulerVariables variables(request);
    CHECK_FALSE(variables.node_rank({"A"}));
    REQUIRE(variables.failure());
    CHECK(variables.failure()->starts_with("A=\""));
    CHECK(variables.failure()->ends_with("\" is not a number from 0 to 65535"));
  }
}

TEST_CASE("counts, ranks and GPUs are limited") {
  const ClusterRequest request = of({"ZERO=0", "ONE=1", "MOST=65536"});
  SchedulerVariables variables(request);
  CHECK(variables.node_count({"MOST"})->value == 65536);
  CHECK(variables.node_rank({"ZERO"})->value == 0);
  CHECK(variables.gpus({"ONE"})->value == 1);
  CHECK_FALSE(variables.gpus({"ZERO"}));
  CHECK(variables.exceeds("MOST", 1));
  CHECK_FALSE(variables.exceeds("ONE", 1));
  CHECK_FALSE(variables.exceeds("NONE", 1));
  CHECK_FALSE(variables.failure());
  CHECK_FALSE(variables.node_rank({"MOST"}));
  CHECK(variables.failure() == "MOST=\"65536\" is not a number from 0 to 65535");
  CHECK_FALSE(variables.node_count({"ZERO"}));
  // The first failure counts.
  CHECK(variables.failure()->starts_with("MOST"));
}

TEST_CASE("a word must be printable and short") {
  const ClusterRequest request = of({"A=12.head[3]", "B=a b", "C=" + std::string(257, 'x'),
                                     "D=\xc6\x92"
                                     "3ETx"});
  CHECK(SchedulerVariables(request).word({"A"}) == "12.head[3]");
  CHECK(SchedulerVariables(request).word({"D"}, "\xc6\x92") == "3ETx");
  for (const char* name : {"B", "C", "D"}) {
    SchedulerVariables variables(request);
    CHECK(variables.word({name}).empty());
    CHECK(variables.failure()->starts_with(std::string(name) + "=\""));
  }
}

TEST_CASE("hosts are parsed from lists with brackets") {
  const ClusterRequest request = of({"A=n[1-2],m", "B=n[2-1]"});
  SchedulerVariables variables(request);
  const HostNames hosts = variables.host_list({"NONE", "A"});
  CHECK(hosts.names == Names{"n1", "n2", "m"});
  CHECK(hosts.source == "A");
  CHECK(hosts.text == "n[1-2],m");
  CHECK(variables.host_list({"NONE"}).names.empty());
  CHECK_FALSE(variables.failure());
  CHECK(variables.host_list({"B"}).names.empty());
  CHECK(variables.failure()->starts_with("B: host \"n[2-1]\" has the range"));
}

TEST_CASE("hosts are parsed from pairs of a host and its slots") {
  const ClusterRequest request = of({"A=h1 4  h2 4 h1 2", "B=h1 4 h2", "C=h1 0", "D=h1 h2"});
  SchedulerVariables variables(request);
  CHECK(variables.host_pairs("A").names == Names{"h1", "h2"});
  CHECK(variables.host_pairs("NONE").names.empty());
  CHECK_FALSE(variables.failure());
  for (const char* name : {"B", "C", "D"}) {
    SchedulerVariables others(request);
    CHECK(others.host_pairs(name).names.empty());
    REQUIRE(others.failure());
    CHECK(others.failure()->find("is not a list of hosts, each with its number of slots") != std::string::npos);
  }
}

TEST_CASE("hosts are parsed from a JSON list and sorted") {
  const ClusterRequest request = of({"A= [ \"b\",\"a\" , \"c-1\"]\n", "B=[\"a\"]"});
  SchedulerVariables variables(request);
  CHECK(variables.host_json("A").names == Names{"a", "b", "c-1"});
  CHECK(variables.host_json("B").names == Names{"a"});
  CHECK_FALSE(variables.failure());
}

TEST_CASE("text that is not a JSON list of hosts is an error") {
  for (const std::string value :
       {"[]", "[", "a", "\"a\"", "[a]", "[\"a\",]", "[\"\"]", "[1]", "[null]", "{\"a\":1}", "[\"a\" \"b\"]",
        "[[\"a\"]]", "[\"a\\u0062\"]", "[\"a b\"]", "[\"a,b\"]", "[\"]", "[\"a\"]x"}) {
    const ClusterRequest request = of({"A=" + value});
    SchedulerVariables variables(request);
    CHECK(variables.host_json("A").names.empty());
    REQUIRE(variables.failure());
    CHECK(variables.failure()->find("is not a JSON list of at most 65536 hosts") != std::string::npos);
  }
}

TEST_CASE("hosts are read from the file that a variable names") {
  const ClusterRequest request = of({"A=/hosts", "GONE=/gone", "EMPTY=/empty", "NONSENSE=/nonsense"});
  SchedulerVariables variables(request);
  CHECK(variables.host_file("A").names == Names{"a", "b", "c"});
  CHECK(variables.host_file("A").source == "A");
  CHECK(variables.host_file("A").text == "a,b,c");
  CHECK(variables.host_file("GONE").names.empty());
  CHECK(variables.host_file("NONE").names.empty());
  CHECK_FALSE(variables.failure());
  CHECK(variables.host_file("NONSENSE").names.empty());
  CHECK(variables.failure()->starts_with("NONSENSE=\"/nonsense\": line 2: host \"$(b)\""));
  SchedulerVariables others(request);
  CHECK(others.host_file("EMPTY").names.empty());
  CHECK(others.failure() == "EMPTY=\"/empty\": the file names no host");
  ClusterRequest blind = of({"A=/hosts"});
  blind.read_file = nullptr;
  CHECK(SchedulerVariables(blind).host_file("A").names.empty());
}

TEST_CASE("a host is found by its name with or without its domain") {
  const HostNames hosts{{"a.x.org", "b.x.org", "c", "d", "d", "e.x.org", "e.y.org"}, "", ""};
  CHECK(SchedulerVariables::find_host(hosts, "b.x.org") == 1);
  CHECK(SchedulerVariables::find_host(hosts, "b") == 1);
  CHECK(SchedulerVariables::find_host(hosts, "c.x.org") == 2);
  CHECK(SchedulerVariables::find_host(hosts, "e.y.org") == 6);
  CHECK_FALSE(SchedulerVariables::find_host(hosts, "a.y.org"));
  CHECK_FALSE(SchedulerVariables::find_host(hosts, "d"));
  CHECK_FALSE(SchedulerVariables::find_host(hosts, "e"));
  CHECK_FALSE(SchedulerVariables::find_host(hosts, "f"));
  CHECK_FALSE(SchedulerVariables::find_host(hosts, ""));
}

TEST_CASE("an environment assignment is escaped for the terminal") {
  CHECK(assignment("A", "1\x1b") == "A=\"1\\x1b\"");
}
