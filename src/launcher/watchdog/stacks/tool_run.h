// ToolRun: a program of the node that looks into a worker, for a bounded time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/process/helper.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Where PATH has this program, or $VIRTUAL_ENV, or the folder of ddplaunch itself, which may lie in an environment of
// Python, too; nothing: nowhere.
std::optional<std::string> find_tool(const std::string& name);

// A file without a name that can be read from its beginning; none if there is no memory for it.
base::UniqueFd file_with(const std::string& bytes);

class ToolRun {
 public:
  // Starts it, with `input` as its standard input (or nothing to read) and its standard error thrown away. `done` is
  // called once, with its standard output, when it has ended; never if the run is destroyed before, which kills the
  // tool.
  ToolRun(net::EventLoop& loop, const std::string& path, const std::vector<std::string>& arguments,
          std::function<void(std::string output)> done, base::UniqueFd input = {});
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  // It could not be started: `done` will not be called.
  bool has_failed() const { return !helper_; }

  // What it has written until now.
  const std::string& output_so_far() const { return text_; }
  // The same; it will not be told again.
  std::string take_output() { return std::exchange(text_, {}); }

 private:
  std::string text_;
  std::unique_ptr<Helper> helper_;
};

}  // namespace ddp::launcher
