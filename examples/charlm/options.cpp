#include "charlm/options.h"

#include <cstdlib>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace charlm {
namespace {

struct OptionForm {
  const char* name;
  const char* value;  // name of the value in the help; "" for a switch
  const char* help;
  std::function<void(Options&, const std::string&)> set;
};

std::int64_t whole_number(const char* name, const std::string& text, std::int64_t minimum) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < minimum || value > std::numeric_limits<std::int32_t>::max()) {
    throw std::runtime_error(std::string(name) + " wants a whole number of at least " + std::to_string(minimum) +
                             ", not '" + text + "'");
  }
  return value;
}

double positive_number(const char* name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0) || value > 1e6) {
    throw std::runtime_error(std::string(name) + " wants a positive number, not '" + text + "'");
  }
  return value;
}

const std::vector<OptionForm>& forms() {
  static const std::vector<OptionForm> table = {
      {"--text", "FILE", "text to learn (default /usr/share/common-licenses/GPL-3)",
       [](Options& o, const std::string& v) { o.text = v; }},
      {"--steps", "N", "steps in all, those before --resume included",
       [](Options& o, const std::string& v) { o.steps = whole_number("--steps", v, 1); }},
      {"--epochs", "N", "times through the text, unless --steps is given (default 8)",
       [](Options& o, const std::string& v) { o.epochs = whole_number("--epochs", v, 1); }},
      {"--batch", "N", "predictions a step over all ranks (default 128)",
       [](Options& o, const std::string& v) { o.batch = whole_number("--batch", v, 1); }},
      {"--seed", "N", "of weights and order (default 0)",
       [](Options& o, const std::string& v) { o.seed = whole_number("--seed", v, 0); }},
      {"--learning-rate", "X", "of Adam (default 0.002)",
       [](Options& o, const std::string& v) { o.learning_rate = positive_number("--learning-rate", v); }},
      {"--checkpoint", "FILE", "where to save (default charlm.safetensors; '' saves nothing)",
       [](Options& o, const std::string& v) { o.checkpoint = v; }},
      {"--save-every", "N", "steps between checkpoints (default: one an epoch)",
       [](Options& o, const std::string& v) { o.save_every = whole_number("--save-every", v, 1); }},
      {"--hook", "NAME", "how gradients travel: mean (default), f16, bf16, power-sgd, top-k, one-bit",
       [](Options& o, const std::string& v) { o.hook = v; }},
      {"--local-steps", "N", "average the parameters every N steps instead of the gradients in each",
       [](Options& o, const std::string& v) { o.local_steps = whole_number("--local-steps", v, 1); }},
      {"--resume", "", "continue from the checkpoint", [](Options& o, const std::string&) { o.resume = true; }},
      {"--help", "", "print this text", [](Options& o, const std::string&) { o.help = true; }},
  };
  return table;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionForm* form = nullptr;
    for (const OptionForm& candidate : forms()) {
      if (name == candidate.name) form = &candidate;
    }
    if (form == nullptr) throw std::runtime_error("unknown option " + name + ". See train_charlm --help");
    std::string value;
    if (*form->value != '\0') {
      if (equals != std::string::npos) {
        value = word.substr(equals + 1);
      } else if (++i < argc) {
        value = argv[i];
      } else {
        throw std::runtime_error(name + " wants a value: " + name + " " + form->value);
      }
    }
    form->set(options, value);
  }
  return options;
}

std::string help_text() {
  std::string text =
      "Trains a character language model; under ddplaunch on all ranks together.\n"
      "Usage: ddplaunch --nproc-per-node=2 train_charlm [options]\n\n";
  for (const OptionForm& form : forms()) {
    std::string left = std::string("  ") + form.name + " " + form.value;
    left.resize(25, ' ');
    text += left + form.help + "\n";
  }
  return text;
}

}  // namespace charlm
