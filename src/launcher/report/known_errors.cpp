#include "launcher/report/known_errors.h"

#include <algorithm>
#include <string_view>

namespace ddp::launcher {
namespace {

struct KnownError {
  std::string_view words;  // text that is part of one of the last lines
  const char* remedy;
};
constexpr const char* kNoInput =
    "workers have no standard input; --stdin=0 connects ddplaunch's standard input to local rank 0 (start one worker "
    "to use a debugger)";
constexpr KnownError kErrors[] = {
    {"bdb.BdbQuit", kNoInput},
    {"EOFError: EOF when reading a line", kNoInput},
    {"Duplicate GPU detected",
     "two ranks use one GPU; call torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before the first "
     "collective, or start one worker per GPU"},
    {"op.preamble.length <= op.nbytes",
     "Gloo: this rank and another one called a collective with different numbers of bytes [DDP-H05]: compare shapes "
     "and "
     "types of all ranks at this line. TORCH_DISTRIBUTED_DEBUG=DETAIL names them"},
    {"unrecognized arguments: --local_rank=",
     "this script declares --local-rank or reads LOCAL_RANK; use --use-env, or declare both spellings, "
     "add_argument(\"--local-rank\", \"--local_rank\", type=int)"},
    {"unrecognized arguments: --local-rank=",
     "this script declares --local_rank or reads LOCAL_RANK; declare both spellings, "
     "add_argument(\"--local-rank\", \"--local_rank\", type=int)"},
};

}  // namespace

std::string what_to_try(const std::vector<std::string>& last_lines, const LaunchPlan& plan) {
  const auto shows = [&](std::string_view words) {
    return std::ranges::any_of(last_lines,
                               [&](const std::string& line) { return line.find(words) != std::string::npos; });
  };
  for (const KnownError& error : kErrors) {
    if (shows(error.words)) return error.remedy;
  }
  if (shows("ModuleNotFoundError: No module named")) {
    return "the workers ran " + plan.program +
           "; activate the environment that has the module, or set PYTHON_EXEC to its Python";
  }
  return "";
}

}  // namespace ddp::launcher
