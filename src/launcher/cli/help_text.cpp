#include "launcher/cli/help_text.h"

#include "base/text.h"
#include "launcher/cli/store_options.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kHelpColumn = 32;

std::string paragraph(std::string_view text, std::size_t indent) {
  std::string lines;
  for (const std::string& line : wrapped(text, kWidth - indent)) lines += std::string(indent, ' ') + line + "\n";
  return lines;
}

std::string option_lines(const OptionSpec& option) {
  const std::string synopsis = "  " + option_synopsis(option);
  std::string lines = paragraph(option.help, kHelpColumn);
  if (synopsis.size() + 2 > kHelpColumn) return synopsis + "\n" + lines;
  return synopsis + lines.substr(synopsis.size());
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& word : base::split(text, ' ')) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

std::string option_synopsis(const OptionSpec& option) {
  std::string text = option.short_name == '\0' ? "    " : std::string("-") + option.short_name + ", ";
  const std::vector<std::string> names = names_of(option);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    text += "--" + names[i];
    if (option.kind == OptionKind::value && !is_negation(option, names[i]))
      text += " " + std::string(option.value_name);
  }
  return text;
}

std::string help_text(const std::string& name) {
  std::string text = "Usage: " + name + " [options] program [arguments ...]\n";
  if (name == "ddplaunch") {
    text += "       ddplaunch launch [options] script [arguments ...]\n";
    text += "       ddplaunch store [--help] [options]\n";
    text += "       ddplaunch bench [--help] [options]\n";
  }
  text += "\n" + paragraph(kDescription, 0);
  for (const OptionGroupTitle& group : option_groups()) {
    text += "\n" + std::string(group.title) + "\n";
    for (const OptionSpec& option : option_table()) {
      if (option.group == group.group) text += option_lines(option);
    }
  }
  text += "\n" + paragraph(kProgramRule, 0);
  text += "\n" + paragraph(kExitCodes, 0);
  text += "\nExample: " + name + " --nproc-per-node=2 ./train --epochs 3\n";
  return text;
}

std::string store_help_text() {
  std::string text =
      "Usage: ddplaunch store [--host ADDR] [--port N] [options]\n"
      "       ddplaunch store --inspect HOST[:PORT] [--json] [--auth-token-file FILE]\n"
      "       ddplaunch store --join HOST[:PORT] --auth-token-file FILE\n";
  text += "\n" + paragraph(kStoreDescription, 0) + "\n";
  for (const OptionSpec& option : store_option_table()) text += option_lines(option);
  text += "\n" + paragraph(kStoreExitCodes, 0);
  text += "\nExample: ddplaunch store --inspect 127.0.0.1:29500\n";
  return text;
}

}  // namespace ddp::launcher
