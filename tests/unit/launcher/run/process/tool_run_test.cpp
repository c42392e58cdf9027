#include "launcher/run/process/tool_run.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("a tool's complete output is delivered at its exit") {
  net::EventLoop loop;
  std::string output;
  const ToolRun run(loop, "/bin/sh", {"-c", "seq 1 20000; echo told on the error stream >&2; cat; exit 3"},
                    [&](const std::string& text) {
                      output = text;
                      loop.stop();
                    });
  REQUIRE_FALSE(run.has_failed());
  const auto timer = loop.at(std::chrono::steady_clock::now() + 20s, [&] { loop.stop(); });
  loop.run();
  CHECK(output.size() == 108'894);
  CHECK(output.ends_with("19999\n20000\n"));
}

TEST_CASE("an abandoned tool is killed") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/pid";
  net::EventLoop loop;
  bool is_called = false;
  {
    const ToolRun run(loop, "/bin/sh",
                      {"-c", "echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000"},
                      [&](const std::string&) { is_called = true; });
    REQUIRE_FALSE(run.has_failed());
    for (int i = 0; i < 2000 && !std::filesystem::exists(file); ++i) {
      const auto timer = loop.at(std::chrono::steady_clock::now() + 5ms, [&] { loop.stop(); });
      loop.run();
    }
  }
  const std::string pid = base::read_file(file);
  REQUIRE_FALSE(pid.empty());
  const std::string stat = "/proc/" + pid.substr(0, pid.size() - 1) + "/stat";
  const auto is_dead = [&] {
    const std::string text = base::read_file(stat);
    return text.empty() || text.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 2000 && !is_dead(); ++i) {
    const auto timer = loop.at(std::chrono::steady_clock::now() + 5ms, [&] { loop.stop(); });
    loop.run();
  }
  CHECK(is_dead());
  CHECK_FALSE(is_called);
}

TEST_CASE("a tool that cannot be started reports the reason") {
  net::EventLoop loop;
  CHECK(ToolRun(loop, "/no/such/tool", {}, [](const std::string&) {}).has_failed());
  CHECK(find_tool("sh").has_value());
  CHECK_FALSE(find_tool("no-such-tool-anywhere").has_value());
}

TEST_CASE("a tool is found in the active Python environment") {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() + "/bin");
  const std::string tool = directory.path() + "/bin/no-such-tool-anywhere";
  std::ofstream(tool) << "#!/bin/sh\n";
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  ::setenv("VIRTUAL_ENV", directory.path().c_str(), 1);
  CHECK(find_tool("no-such-tool-anywhere") == tool);
  ::unsetenv("VIRTUAL_ENV");
}
