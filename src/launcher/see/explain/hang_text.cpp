#include <string>

#include "base/text.h"
#include "launcher/see/explain/hang_records.h"

namespace ddp::launcher {
namespace {

std::string size_text(const RecordedCall& call) {
  return call.numel_in ? " (NumelIn " + std::to_string(*call.numel_in) + ")" : "";
}

std::string call_text(const RecordedCall& call) {
  const std::string name = call.operation.empty() ? "collective" : call.operation;
  return name + " #" + std::to_string(call.number) + size_text(call);
}

std::string group_text(const HangFinding& finding) {
  if (finding.group.empty()) return "an unnamed process group";
  const bool is_obvious = finding.description.empty() || finding.description == finding.group;
  return "group " + finding.group + (is_obvious ? "" : " (" + finding.description + ")");
}

// "(ranks of the group)", if those of the job are unknown.
std::string note_text(const HangFinding& finding) {
  return finding.has_ranks_of_group ? "; the numbers are ranks of the group" : "";
}

std::string not_called_text(const HangFinding& finding) {
  std::string text = base::ranks_text(finding.culprits, "has", "have") + " not called " + call_text(finding.call) +
                     " of " + group_text(finding);
  if (finding.may_have_failed) {
    text += ", without which it cannot have completed on " + base::ranks_text(finding.waiting) +
            ": it has failed there, or their records are newer";
  } else if (!finding.waiting.empty())
    text += ", in which " + base::ranks_text(finding.waiting, "waits", "wait");
  if (!finding.missing.empty()) text += "; " + finding.missing + " are missing";
  return text;
}

std::string mismatch_text(const HangFinding& finding) {
  std::string text = "the ranks of " + group_text(finding) + " differ in call #" + std::to_string(finding.call.number);
  const RecordedCall& first = finding.calls.front().call;
  for (std::size_t i = 0; i < finding.calls.size(); ++i) {
    const RecordedCall& call = finding.calls[i].call;
    text += (i == 0 ? ": " : ", ") + base::ranks_text(finding.calls[i].ranks) + " called " + call.operation +
            size_text(call);
    const bool only_type = i > 0 && call.operation == first.operation && call.numel_in == first.numel_in;
    if ((only_type || i == 0) && !call.type.empty()) text += " of " + call.type;
  }
  return text;
}

std::string all_called_text(const HangFinding& finding) {
  std::string text = finding.call.is_p2p ? "both ranks" : "all " + std::to_string(finding.ranks_in_group) + " ranks";
  text += finding.call.is_p2p ? " have made the calls of " : " of " + group_text(finding) + " have called ";
  text += call_text(finding.call);
  if (finding.call.is_p2p) text += " of " + group_text(finding);
  text += ", but it does not end on " + base::ranks_text(finding.waiting);
  if (!finding.not_started.empty()) {
    return text + ": the GPU of " + base::ranks_text(finding.not_started) + " has not started it";
  }
  return text + ": the connection between the ranks, or the GPU or the process of one of them, is at fault";
}

std::string undecided_text(const HangFinding& finding) {
  if (finding.waiting.empty()) return "no recorded call waits, but " + finding.missing + " are missing";
  std::string text = base::ranks_text(finding.waiting, "waits", "wait") + " in ";
  text += finding.call.number > 0 ? call_text(finding.call) : "collectives";
  text += " of " + group_text(finding) + ", but it cannot be decided why";
  if (!finding.missing.empty()) text += ": what is missing is " + finding.missing;
  return text;
}

std::string own_text(const HangFinding& finding) {
  switch (finding.kind) {
    case HangKind::none:
      return "";
    case HangKind::not_called:
      return not_called_text(finding);
    case HangKind::mismatch:
      return mismatch_text(finding);
    case HangKind::all_called:
      return all_called_text(finding);
    case HangKind::circular_wait:
      return base::ranks_text(finding.waiting) + " wait for each other";
    case HangKind::cannot_be_decided:
      return undecided_text(finding);
  }
  return "";
}

}  // namespace

std::string hang_text(const HangFinding& finding) {
  constexpr std::size_t kMostWaits = 4;
  std::string text = own_text(finding);
  const bool is_circle = finding.kind == HangKind::circular_wait;
  for (std::size_t i = 0; i < finding.waits.size(); ++i) {
    const HangFinding& one = finding.waits[i];
    if (i == kMostWaits) {
      text += "; and so on";
      break;
    }
    text += i > 0 ? "; " : is_circle ? ": " : "; because of that, ";
    text += is_circle ? own_text(one)
                      : base::ranks_text(one.waiting, "waits", "wait") + " in " + call_text(one.call) + " of " +
                            group_text(one);
  }
  return text + note_text(finding);
}

}  // namespace ddp::launcher
