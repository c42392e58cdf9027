#include "launcher/cli/man_page.h"

#include <ddp/version.h>

#include "launcher/cli/option_table.h"
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

std::string option_entry(const OptionSpec& option) {
  std::string heading;
  if (option.short_name != '\0') heading = bold(std::string("-") + option.short_name) + ", ";
  bool first = true;
  for (const std::string& name : names_of(option)) {
    if (!first) heading += ", ";
    first = false;
    heading += bold("--" + name);
    if (option.kind == OptionKind::value && !is_negation(option, name)) heading += " " + italic(option.value_name);
  }
  std::string text = ".TP\n" + heading + "\n" + escaped(option.help) + "\n";
  if (!option.choices.empty()) {
    text += ".br\n";
    text += option.choices_are_examples ? "Known words: " : "Choices: ";
    bool next = false;
    for (const std::string& choice : choices_of(option)) {
      text += (next ? ", " : "") + bold(choice);
      next = true;
    }
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
  for (const OptionGroupTitle& group : option_groups()) {
    page += ".SS \"" + escaped(group.title) + "\"\n";
    for (const OptionSpec& option : option_table()) {
      if (option.group == group.group) page += option_entry(option);
    }
  }
  page += ".SH \"DDPLAUNCH STORE\"\n" + escaped(kStoreDescription) + "\n";
  for (const OptionSpec& option : store_option_table()) page += option_entry(option);
  page += ".PP\n" + escaped(kStoreExitCodes) + "\n";
  page += ".SH \"EXIT STATUS\"\n" + escaped(kExitCodes) + "\n";
  page += ".SH EXAMPLE\n.EX\n" + escaped("ddplaunch --nproc-per-node=2 ./train --epochs 3") + "\n.EE\n";
  return page;
}

}  // namespace ddp::launcher
