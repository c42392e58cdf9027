#include "launcher/start/doctor/doctor_command.h"

#include <chrono>

#include "launcher/start/doctor/checks.h"
#include "launcher/start/doctor/node.h"
#include "launcher/start/doctor/report.h"
#include "launcher/start/doctor/run_checks.h"

namespace ddp::launcher::doctor {

int run_doctor_command(const DoctorOptions& options, const std::function<int(const std::string&)>& print) {
  constexpr std::chrono::seconds kLimit{8};
  constexpr std::chrono::seconds kDeepLimit{60};
  const Node node = this_node(options.workers, options.nodes, options.checkpoint_dir);
  const Findings findings = run_checks(all_checks(options.deep), node, options.deep ? kDeepLimit : kLimit);
  const int exit_code = exit_code_of(findings, options.strict);
  const int failure = print(options.json ? report_json(node, findings, exit_code) : report_text(node, findings));
  return failure != 0 ? failure : exit_code;
}

}  // namespace ddp::launcher::doctor
