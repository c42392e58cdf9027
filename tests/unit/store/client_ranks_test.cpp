#include "store/client_ranks.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "support/temporary_directory.h"

using namespace ddp::store;
using namespace std::chrono_literals;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

// A folder that looks like /proc.
class Processes {
 public:
  void add(int pid, const std::string& environment, const std::vector<std::string>& links) {
    const fs::path folder = fs::path(folder_.path()) / std::to_string(pid);
    fs::create_directories(folder / "fd");
    std::ofstream(folder / "environ") << environment;
    int number = 0;
    for (const std::string& link : links) fs::create_symlink(link, folder / "fd" / std::to_string(number++));
  }
  auto ranks_of(std::unordered_map<std::uint64_t, ConnectionId> clients, std::chrono::nanoseconds patience = 10s) {
    return find_ranks(std::move(clients), patience, folder_.path());
  }

 private:
  TemporaryDirectory folder_;
};

std::string environment(int rank, int world_size) {
  return "PATH=/bin\0RANK="s + std::to_string(rank) + "\0WORLD_SIZE="s + std::to_string(world_size) + "\0"s;
}

}  // namespace

TEST_CASE("a client's rank is in the environment of the process that holds its socket") {
  Processes processes;
  processes.add(10, environment(0, 2), {"/dev/null", "socket:[100]"});
  processes.add(11, environment(1, 2), {"pipe:[7]", "socket:[101]", "socket:[102]"});
  processes.add(12, "PATH=/bin\0"s, {"socket:[103]"});
  const auto ranks = processes.ranks_of({{100, 5}, {102, 6}, {103, 7}, {104, 8}});
  REQUIRE(ranks.size() == 2);
  CHECK(ranks.at(5).rank == 0);
  CHECK(ranks.at(5).world_size == 2);
  CHECK(ranks.at(6).rank == 1);
  CHECK_THAT(ranks.at(6).name, Catch::EndsWith(":11"));
}

TEST_CASE("what cannot be read, and more processes than there is time for, are left out") {
  Processes processes;
  processes.add(10, environment(0, 2), {"socket:[100]"});
  CHECK(processes.ranks_of({{100, 5}}, 0ns).empty());
  CHECK(processes.ranks_of({}).empty());
  CHECK(find_ranks({{100, 5}}, 10s, "/no/such/folder").empty());
}

TEST_CASE("an environment has a rank if it has a whole pair") {
  const auto rank = rank_in_environment(environment(3, 4));
  REQUIRE(rank);
  CHECK(rank->rank == 3);
  CHECK(rank->world_size == 4);
  for (const std::string& text : {""s, "RANK=3"s, "WORLD_SIZE=4"s, environment(4, 4), environment(-1, 4),
                                  "RANK=x\0WORLD_SIZE=4"s, "LOCAL_RANK=3\0WORLD_SIZE=4"s,
                                  "RANK=1\0WORLD_SIZE=99999999999"s}) {
    INFO(text);
    CHECK_FALSE(rank_in_environment(text));
  }
}

TEST_CASE("a link to a socket names its inode") {
  CHECK(socket_of_link("socket:[4711]") == 4711);
  for (const char* link : {"", "socket:", "socket:[", "socket:[]", "socket:[-1]", "socket:[1", "pipe:[4711]", "/dev/null"}) {
    INFO(link);
    CHECK_FALSE(socket_of_link(link));
  }
}
