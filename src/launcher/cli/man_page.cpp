#include "launcher/cli/man_page.h"

#include <ddp/version.h>

#include "launcher/cli/job_options.h"
#include "launcher/cli/store_options.h"

namespace ddp::launcher {
namespace {

// Text as troff prints it: dashes that can be copied, no accidental requests at the start of a line.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return text.starts_with('.') ? "\\&" + result : result;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + escaped(text) + "\\fR";
}

std::string option_entry(const OptionInfo& option) {
  std::string heading = option.short_name.empty() ? "" : bold("-" + option.short_name) + ", ";
  for (const std::string& name : option.names) {
    if (name != option.name()) heading += ", ";
    heading += bold("--" + name);
    if (!option.is_flag() && !option.is_negation(name)) heading += " " + italic(option.value_name);
  }
  std::string text = ".TP\n" + heading + "\n" + escaped(option.help) + "\n";
  if (!option.choices.empty()) {
    text += option.choices_are_examples ? ".br\nKnown words: " : ".br\nChoices: ";
    for (const std::string& choice : option.choices) text += (&choice == &option.choices[0] ? "" : ", ") + bold(choice);
    text += ".\n";
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string page = ".TH DDPLAUNCH 1 \"\" \"ddplaunch " DDP_VERSION_STRING "\" \"User Commands\"\n";
  page += ".SH NAME\nddplaunch \\- start the workers of a distributed program and watch over them\n";
  page += ".SH SYNOPSIS\n" + bold("ddplaunch") + " [options] " + italic("program") + " [arguments ...]\n.br\n";
  page += bold("ddplaunch launch") + " [options] " + italic("script") + " [arguments ...]\n.br\n";
  page += bold("ddplaunch store") + " [options]\n";
  page += ".SH DESCRIPTION\n" + escaped(kDescription) + "\n.PP\n" + escaped(kProgramRule) + "\n";
  page += ".SH OPTIONS\n";
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += ".SS \"" + escaped(group = option.group) + "\"\n";
    page += option_entry(option);
  }
  page += ".SH \"DDPLAUNCH STORE\"\n" + escaped(kStoreDescription) + "\n";
  for (const OptionInfo& option : store_options()) page += option_entry(option);
  page += ".PP\n" + escaped(kStoreExitCodes) + "\n";
  page += ".SH \"EXIT STATUS\"\n" + escaped(kExitCodes) + "\n";
  page += ".SH EXAMPLE\n.EX\n" + escaped("ddplaunch --nproc-per-node=2 ./train --epochs 3") + "\n.EE\n";
  return page;
}

}  // namespace ddp::launcher
