#include "launcher/start/facts/host_list.h"

#include <random>

#include "base/text.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Names = std::vector<std::string>;

namespace {

// Returns the names, separated by spaces, or the refusal.
std::string expand(const std::string& text) {
  const auto names = expand_host_list(text);
  return names ? ddp::base::join(names.value(), " ") : names.error().message;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("host lists are expanded as Slurm expands them") {
  // Slurm's own tool gave these results.
  CHECK(expand("node[1-3,5],gpu-a[008-011],tux") == "node1 node2 node3 node5 gpu-a008 gpu-a009 gpu-a010 gpu-a011 tux");
  CHECK(expand("n[09-11]") == "n09 n10 n11");
  CHECK(expand("rack[0-1]node[0-2]") == "rack0node0 rack0node1 rack0node2 rack1node0 rack1node1 rack1node2");
  CHECK(expand("10.0.0.[1-3]") == "10.0.0.1 10.0.0.2 10.0.0.3");
  CHECK(expand("b,a,b") == "b a b");
  CHECK(expand("node[1,3]") == "node1 node3");
  CHECK(expand("n[3,1,1]") == "n3 n1 n1");
  CHECK(expand("[1-2]") == "1 2");
}

TEST_CASE("an empty text is an empty host list") {
  REQUIRE(expand_host_list("").ok());
  CHECK(expand_host_list("").value().empty());
}

TEST_CASE("a host name may continue after its last bracket") {
  CHECK(expand("n[1-3].example.com") == "n1.example.com n2.example.com n3.example.com");
  CHECK(expand("a[1-2]b,c") == "a1b a2b c");
  CHECK(expand("r[1-2]n[01,3]-ib") == "r1n01-ib r1n3-ib r2n01-ib r2n3-ib");
  CHECK(expand("a[1][2]") == "a12");
}

TEST_CASE("the first number of a range sets the number of digits") {
  CHECK(expand("n[0-0]") == "n0");
  CHECK(expand("n[098-101]") == "n098 n099 n100 n101");
  CHECK(expand("n[8-011]") == "n8 n9 n10 n11");
  CHECK(expand("n[00-0002]") == "n00 n01 n02");
  CHECK(expand("n[007]") == "n007");
}

TEST_CASE("addresses and user@host are accepted as hosts") {
  CHECK(expand("user@a_b.c,fe80::1%eth0,::1") == "user@a_b.c fe80::1%eth0 ::1");
}

TEST_CASE("brackets contain numbers and ascending ranges") {
  CHECK(expand("n[3-1]") == "host \"n[3-1]\" has the range \"3-1\", which counts down. Write \"1-3\".");
  CHECK(contains(expand("n[]"), "host \"n[]\" has empty brackets. Write numbers in them"));
  CHECK(contains(expand("n[0-4:2]"), "has \"0-4:2\" in brackets, which is neither a number nor a range"));
  for (const std::string wrong :
       {"n[,]", "n[1,]", "n[1-]", "n[-1]", "n[-0]", "n[1-2-3]", "n[a-b]", "n[1.5]", "n[--1]"}) {
    CHECK(contains(expand(wrong), "neither a number nor a range"));
  }
}

TEST_CASE("unbalanced brackets are rejected") {
  CHECK(contains(expand("a,n[1-2"), "host \"n[1-2\" has a [ at character 2 without a closing ]"));
  CHECK(contains(expand("n[1-2,b"), "at character 2 without a closing ]"));
  CHECK(contains(expand("n[1[2]]"), "at character 2 without a closing ]"));
  CHECK(contains(expand("n1]"), "has a ] at character 3 without an opening ["));
  CHECK(contains(expand("n[1-2]]"), "has a ] at character 7 without an opening ["));
  CHECK(contains(expand("["), "without a closing ]"));
}

TEST_CASE("an empty name between two commas is rejected") {
  CHECK(expand("a,,b") == "host 2 of the list \"a,,b\" is empty. Separate hosts by one comma each.");
  CHECK(contains(expand(",a"), "host 1 of the list"));
  CHECK(contains(expand("a,"), "host 2 of the list"));
  CHECK(contains(expand(","), "host 1 of the list"));
}

TEST_CASE("a host list with shell characters is rejected") {
  CHECK(expand("a b") ==
        "host \"a b\" has \" \" at character 2, which is not allowed in a host name. Separate hosts by commas, without "
        "spaces or "
        "quotes.");
  for (const std::string bad :
       {"a\n", "a\t", "'a'", "\"a\"", "$HOME", "a;b", "a|b", "`a`", "a/b", "a\\b", "a=b", "\xc3\xa4"}) {
    CHECK(contains(expand(bad), "which is not allowed in a host name"));
  }
  CHECK(contains(expand(std::string("a\0b", 3)), "\"\\x00\" at character 2"));
  CHECK(contains(expand("a,-oProxyCommand"), "\"-oProxyCommand\" begins with a dash"));
  CHECK(contains(expand("n[1 -2]"), "\" \" at character 4"));
}

TEST_CASE("a host list that is too long is rejected before it is expanded") {
  CHECK(expand_host_list("n[1-65536]").value().size() == kHosts);
  CHECK(contains(expand("n[0-65536]"), "expands to more than 65536 hosts"));
  CHECK(contains(expand("n[1-65536],a"), "expands to more than 65536 hosts"));
  CHECK(contains(expand("n[0-999999999]"), "expands to more than 65536 hosts"));
  CHECK(contains(expand("n[0-9223372036854775806]"), "expands to more than 65536 hosts"));
  CHECK(contains(expand("n[0-9223372036854775807]"), "neither a number nor a range"));
  CHECK(contains(expand("n[1-99999999999999999999999]"), "neither a number nor a range"));
  CHECK(contains(expand("a[1-300]b[1-300]"), "expands to more than"));
  std::string many;
  for (int i = 0; i < 64; ++i) many += "[0-9]";
  CHECK(contains(expand(many), "expands to more than"));
}

TEST_CASE("a host name that is too long is rejected before it is expanded") {
  CHECK(expand(std::string(kHostNameBytes, 'a')) == std::string(kHostNameBytes, 'a'));
  CHECK(contains(expand(std::string(kHostNameBytes + 1, 'a')), "is longer than 512 bytes"));
  CHECK(contains(expand("n[" + std::string(100'000, '0') + "1-65536]"), "is longer than 512 bytes"));
}

TEST_CASE("a host list is split at the commas outside of brackets") {
  CHECK(split_host_list("a,n[1,3],b").size() == 3);
  CHECK(split_host_list("a,n[1,3],b")[1] == "n[1,3]");
  CHECK(split_host_list("").empty());
  CHECK(split_host_list(",").size() == 2);
}

TEST_CASE("the host list parser turns random text into an error with a message or into names without ranges") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string alphabet = "a1 09[]-,,:.\x80";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const auto length = random() % 12;
    for (std::size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    const auto names = expand_host_list(text);
    if (!names) {
      CHECK_FALSE(names.error().message.empty());
      continue;
    }
    for (const std::string& name : names.value()) {
      CHECK_FALSE(name.empty());
      // A name is a list of itself.
      CHECK(expand_host_list(name).value() == Names{name});
    }
  }
}

TEST_CASE("a host name consists of letters, digits and a few signs") {
  for (const char each : std::string("azAZ09.-_:%@")) CHECK(is_host_character(each));
  for (const char each : std::string(" \t\n\r'\"$;&|<>(){}*?!#~^+=,/\\[]`\x01\x7f\xc3"))
    CHECK_FALSE(is_host_character(each));
  CHECK_FALSE(is_host_character('\0'));
}

TEST_CASE("untrusted text is escaped for the terminal") {
  CHECK(shown("node[1-3]") == "\"node[1-3]\"");
  CHECK(shown("") == "\"\"");
  CHECK(shown("\x1b[31m\n") == "\"\\x1b[31m\\x0a\"");
  CHECK(shown("a\"b\\c\xc3") == "\"a\\x22b\\x5cc\\xc3\"");
  CHECK(shown(std::string(1, '\0')) == "\"\\x00\"");
}

TEST_CASE("a long text is shortened") {
  CHECK(shown("abcdef", 6) == "\"abcdef\"");
  CHECK(shown("abcdefg", 6) == "\"abcdef…\"");
}
