#include "launcher/start/facts/host_file.h"

#include <random>

#include "launcher/start/facts/host_list.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

// Returns the hosts as "a b/4", or the refusal.
std::string written(const ddp::base::Result<std::vector<HostEntry>>& hosts) {
  if (!hosts) return hosts.error().message;
  std::string text;
  for (const HostEntry& host : hosts.value()) {
    text += (text.empty() ? "" : " ") + host.name;
    if (host.workers) text += "/" + std::to_string(*host.workers);
  }
  return text;
}

std::string list(const std::string& text) {
  return written(parse_hosts(text));
}

std::string file(const std::string& content) {
  return written(parse_host_file(content));
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the option --hosts lists hosts with their numbers of workers") {
  CHECK(parse_hosts("a,b:4,c").value() == std::vector<HostEntry>{{"a", std::nullopt}, {"b", 4}, {"c", std::nullopt}});
  CHECK(list("node[1-3]:2") == "node1/2 node2/2 node3/2");
  CHECK(list("node[1,3]:2,tux") == "node1/2 node3/2 tux");
  CHECK(list("n[1-2].example.com:8") == "n1.example.com/8 n2.example.com/8");
  CHECK(list("10.0.0.[1-2]:4") == "10.0.0.1/4 10.0.0.2/4");
  CHECK(list("me@a:2,you@b") == "me@a/2 you@b");
  CHECK(list("[1-2]:3") == "1/3 2/3");
  CHECK(parse_hosts("").value().empty());
}

TEST_CASE("an IPv6 address needs brackets if a number follows") {
  CHECK(list("[::1]:4") == "::1/4");
  CHECK(list("[::1]") == "::1");
  CHECK(list("::1") == "::1");
  CHECK(list("fe80::1%eth0,[fe80::2%eth0]:2") == "fe80::1%eth0 fe80::2%eth0/2");
  CHECK(list("2001:db8::10,[2001:db8::11]:8,c:2") == "2001:db8::10 2001:db8::11/8 c/2");
  CHECK(list("me@::1,me@[::2]:2") == "me@::1 me@::2/2");
  CHECK(list("fd00::[1-2]") == "fd00::1 fd00::2");
  CHECK(list("::ffff:10.0.0.1") == "::ffff:10.0.0.1");
}

TEST_CASE("text that is neither an address nor a name with a number is rejected") {
  CHECK(contains(list("a:4:b"), "host \"a:4:b\" is not an IPv6 address and has too many colons"));
  CHECK(contains(list("a:4:2"), "too many colons"));
  CHECK(contains(list("[::g]:4"), "is not an IPv6 address in brackets"));
  CHECK(contains(list("[::1]4"), "is not an IPv6 address in brackets"));
  CHECK(contains(list("a[::1]:4"), "is not an IPv6 address in brackets"));
  CHECK(contains(list("[::1:4"), "without a closing ]"));
  CHECK(contains(list("[::1]:"), "has \"\" as its number of workers"));
  CHECK(contains(list("[::1] :2"), "is not an IPv6 address in brackets"));
  CHECK(contains(list("n[0-4:2]"), "neither a number nor a range"));
  CHECK(contains(list(":4"), "has no name before the colon"));
}

TEST_CASE("the number of workers of a host must be from 1 to 65536") {
  CHECK(list("a:1,b:65536") == "a/1 b/65536");
  for (const std::string number : {"0", "-1", "65537", "x", "", "1x", "+1", "99999999999999999999"}) {
    CHECK(list("b:" + number) == "host \"b:" + number + "\" has \"" + number +
                                     "\" as its number of workers. Use a number from 1 to 65536, as in b:4.");
  }
}

TEST_CASE("the option --hosts requires a host between two commas and no spaces") {
  CHECK(contains(list("a,,b"), "host 2 of the list \"a,,b\" is empty"));
  CHECK(contains(list("a,"), "host 2 of the list"));
  CHECK(contains(list("a:4 b:4"), "\" \" at character 4"));
  CHECK(contains(list("a b"), "\" \" at character 2"));
  CHECK(contains(list("a, b"), "\" \" at character 1"));
}

TEST_CASE("host files of DeepSpeed, Open MPI and MPICH are parsed") {
  CHECK(file("a slots=4\nb slots=8\n") == "a/4 b/8");
  CHECK(file("a slots=4 max_slots=8\nb max-slots=2") == "a/4 b");
  CHECK(file("a:4\nb 8\nc") == "a/4 b/8 c");
  CHECK(file("# two nodes\n\n  a\tslots=4  # the first\r\n\r\nb slots=4\r\n#c\n") == "a/4 b/4");
  CHECK(file("::1 slots=2\n[::2]:3\n") == "::1/2 ::2/3");
  CHECK(file("node[1-2] slots=4\ntux,cat 2\n") == "node1/4 node2/4 tux/2 cat/2");
  CHECK(file("").empty());
  CHECK(file("\n\n# nobody\n").empty());
}

TEST_CASE("the worker numbers of a repeated host are added") {
  CHECK(file("a slots=4\nb slots=2\na slots=3\n") == "a/7 b/2");
  CHECK(list("a:4,b:2,a:3") == "a/7 b/2");
  CHECK(contains(file("a slots=65536\na slots=1\n"), "line 2: host \"a\" has more than 65536 workers altogether"));
}

TEST_CASE("a host file with a line per slot counts the slots") {
  CHECK(file("a\na\na\nb\nb\nb\n") == "a/3 b/3");
  CHECK(file("a\nb\na\nb\n") == "a/2 b/2");
  // If any host has several lines, each line is one slot.
  CHECK(file("a\na\nb\n") == "a/2 b/1");
  CHECK(file("a\na\nb slots=4\n") == "a/2 b/4");
  CHECK(file("a\nb\n") == "a b");
  CHECK(list("a,a,b") == "a/2 b/1");
}

TEST_CASE("a host listed both with and without a number is an error") {
  CHECK(file("a slots=4\nb\na\n") ==
        "line 3: host \"a\" has a number of workers in one place and none in another. Give it in both or none.");
  CHECK(contains(list("a,a:2"), "in one place and none in another"));
}

TEST_CASE("errors in a host file name the line") {
  CHECK(file("a slots=4\n\nb slots=0\n") ==
        "line 3: host \"b\" has \"0\" as its number of workers. Use a number from 1 to 65536, as in b:4.");
  CHECK(contains(file("a\nb slots\n"), "line 2: host \"b\" is followed by \"slots\". Write a line as in"));
  CHECK(contains(file("a slots=2 ssh\n"), "line 1: host \"a\" is followed by \"ssh\""));
  CHECK(contains(file("a slots=\n"), "line 1: host \"a\" has \"\" as its number"));
  CHECK(contains(file("a slots=2 slots=3\n"), "line 1: host \"a\" has two numbers of workers"));
  CHECK(contains(file("a 2 3\n"), "two numbers"));
  CHECK(contains(file("a:2 slots=3\n"), "line 1: host \"a:2\" has two numbers of workers"));
  CHECK(contains(file("\n$(rm) slots=3\n"), "line 2: host \"$(rm)\" has \"$\" at character 1"));
  CHECK(contains(file("a,,b\n"), "line 1: host 2 of the list"));
  CHECK(contains(file("slots=4\n"), "line 1: host \"slots=4\" has \"=\" at character 6"));
  CHECK(contains(file(std::string("a\0b\n", 4)), "\"\\x00\" at character 2"));
}

TEST_CASE("the number of hosts is limited, and the number of lines is not") {
  CHECK(parse_hosts("n[1-65536]").value().size() == kHosts);
  CHECK(contains(list("n[1-65536],a"), "there are more than 65536 hosts"));
  CHECK(contains(list("n[0-999999999]:4"), "expands to more than 65536 hosts"));
  CHECK(contains(file("n[1-65536]\nm1\n"), "line 2: there are more than 65536 hosts"));
  std::string slots;
  for (int i = 0; i < 70'000; ++i) slots += i % 2 == 0 ? "a\n" : "b\n";
  CHECK(file(slots) == "a/35000 b/35000");
  // Each of these lines is short. Together they name a quarter of a billion hosts.
  std::string bomb;
  for (int i = 0; i < 4'000; ++i) bomb += "n[1-65536]\n";
  CHECK(contains(file(bomb), "line 65: hosts are named more than 4194304 times"));
}

TEST_CASE("the host file parser turns random text into an error or into hosts with valid names and slots") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> words = {"a",   "b", "slots=", "4",  ":", "::", "[",   "]",
                                          "1-2", ",", " ",      "\n", "#", "\r", "\xff"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const auto length = random() % 10;
    for (std::size_t i = 0; i < length; ++i) text += words[random() % words.size()];
    for (const auto& hosts : {parse_hosts(text), parse_host_file(text)}) {
      if (!hosts) continue;
      for (const HostEntry& host : hosts.value()) {
        CHECK_FALSE(host.name.empty());
        for (const char each : host.name) CHECK(is_host_character(each));
        CHECK(host.workers.value_or(1) >= 1);
      }
    }
  }
}
