#include "launcher/explain/explain_command.h"

#include "base/exit_code.h"
#include "launcher/explain/explanation.h"
#include "launcher/explain/explanation_text.h"
#include "launcher/explain/log_files.h"

namespace ddp::launcher {

int run_explain_command(const ExplainOptions& options, Log& log, const std::function<int(const std::string&)>& print) {
  const auto fail = [&](const std::string& text) {
    log.write({LogLevel::error, LogSource::launcher, text});
    return base::kExitOwnFault;
  };
  const auto files = find_log_files(options.inputs);
  if (!files) return fail(files.error().message);
  const auto read = read_log_files(files.value());
  if (!read) return fail(read.error().message);
  for (const std::string& note : read.value().notes) log.write({LogLevel::warning, LogSource::launcher, note});
  const Explanation explanation = explain(read.value().logs, std::nullopt);
  const int printed = print(options.json ? explanation_json(explanation) : explanation_text(explanation));
  if (printed != 0) return printed;
  return explanation.is_certain() ? 0 : base::kExitNotExplained;
}

}  // namespace ddp::launcher
