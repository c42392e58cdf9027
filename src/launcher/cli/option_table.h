// The table of options. The parser, --help, the man page and the shell completions are all made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

enum class OptionKind { flag, value };
enum class OptionGroup { workers, program, rendezvous, devices, supervision, output, reports, information };
// What may set an option besides the command line.
enum class OptionSources { all, no_variable, command_line };

struct OptionSpec {
  std::string_view name;              // "nproc-per-node": with dashes; underscores mean the same everywhere
  char short_name = '\0';             // 'm' for -m
  std::string_view second_name = {};  // another name of the same thing
  OptionKind kind = OptionKind::value;
  bool repeatable = false;            // each one given counts, in order; else the last one wins
  bool negatable = false;             // --no-NAME exists: off for a flag, empty for a value
  std::string_view value_name = {};   // "SECONDS"; FILE, DIR: a path
  std::string_view choices = {};      // separated by blanks; empty: any value
  bool choices_are_examples = false;  // other values exist
  bool several_choices = false;       // joined by commas
  OptionGroup group = OptionGroup::information;
  OptionSources sources = OptionSources::all;
  bool of_torchrun = false;  // torchrun has an option of this name
  bool in_full = false;      // not to be cut short, also not in torchrun's manners
  std::string_view help;     // one paragraph of plain text
};

using OptionTable = std::vector<OptionSpec>;

// Those of a job. `ddplaunch store` has a table of its own: store_options.h.
const OptionTable& option_table();

// The options of a group have this title in --help and the man page.
struct OptionGroupTitle {
  OptionGroup group;
  std::string_view title;
};
const std::vector<OptionGroupTitle>& option_groups();

// Dashes in place of underscores: the spelling of the table.
std::string with_dashes(std::string_view name);

// By name, second name or "no-" with the name of a negatable one; without leading dashes, in either spelling.
// Nothing for any other word.
const OptionSpec* find_option(std::string_view name, const OptionTable& table = option_table());
const OptionSpec* find_option(char short_name, const OptionTable& table = option_table());

// Whether `name` is the "--no-…" form of `option`.
bool is_negation(const OptionSpec& option, std::string_view name);

// All names, with dashes: name, second name, negation.
std::vector<std::string> names_of(const OptionSpec& option);
std::vector<std::string> choices_of(const OptionSpec& option);

// "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string variable_of(std::string_view option_name);

// What --help, the man page and the messages say besides the options.
extern const char* const kDescription;
extern const char* const kProgramRule;
extern const char* const kExitCodes;

}  // namespace ddp::launcher
