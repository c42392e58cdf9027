// ToolRun runs a program of this node that examines a worker. It kills the program if the caller does not want to wait
// longer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/run/process/helper.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Returns the path of this program in PATH, in $VIRTUAL_ENV/bin, or in the folder of ddplaunch itself, which may be in
// a Python environment, too. Returns std::nullopt if it is in none of them.
std::optional<std::string> find_tool(const std::string& name);

// Returns an unnamed file that can be read from its beginning. Returns no descriptor if there is no memory for it.
base::UniqueFd file_with(const std::string& bytes);

class ToolRun {
 public:
  // Starts the program with `input` as its standard input, or with nothing to read, and with these variables
  // ("NAME=value"), or the launcher's own if there are none. Its standard error is discarded.
  // When it has ended, `done` is called once with its standard output. If this object is destroyed before, it kills the
  // program and never calls `done`.
  ToolRun(net::EventLoop& loop, const std::string& path, const std::vector<std::string>& arguments,
          std::function<void(std::string output)> done, base::UniqueFd input = {},
          std::vector<std::string> environment = {});
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  // Returns whether the program could not be started. Then `done` is not called.
  bool has_failed() const { return !helper_; }

  // Returns the output of the program until now.
  const std::string& output_so_far() const { return text_; }
  // Returns the output of the program until now, and removes it, so that it is not returned again.
  std::string take_output() { return std::exchange(text_, {}); }

 private:
  std::string text_;
  std::unique_ptr<Helper> helper_;
};

}  // namespace ddp::launcher
