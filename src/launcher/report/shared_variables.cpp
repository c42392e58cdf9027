#include "launcher/report/shared_variables.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ddp::launcher {
namespace {

constexpr std::array<std::string_view, 13> kPrefixes = {"CUDA_",    "DDP_",   "GLOO_",   "KMP_", "MASTER_",
                                                        "MKL_",     "NCCL_",  "NVIDIA_", "OMP_", "PET_",
                                                        "PYTORCH_", "SLURM_", "TORCH"};
// These parts have harmless neighbours (KEYBOARD, TOKENIZER), so they count only as words of their own.
constexpr std::array<std::string_view, 3> kSecretWords = {"_KEY_", "_KEYS_", "TOKEN_"};
constexpr std::array<std::string_view, 6> kSecretParts = {"SECRET", "PASSWORD",   "PASSWD",
                                                          "APIKEY", "CREDENTIAL", "PASSPHRASE"};
constexpr std::string_view kHidden = "***";

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return result;
}

// Returns the word without the value, if it is "NAME=value" and the name may hold a secret.
std::string without_value(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != std::string::npos && is_secret(word.substr(0, equals))
             ? word.substr(0, equals + 1) + std::string(kHidden)
             : word;
}

}  // namespace

bool is_secret(std::string_view name) {
  const std::string words = "_" + upper(name) + "_";
  const auto contains = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  // The name of a file that holds a secret is none.
  return !words.ends_with("_FILE_") &&
         (std::ranges::any_of(kSecretWords, contains) || std::ranges::any_of(kSecretParts, contains));
}

std::vector<std::string> shared_variables(std::span<const std::string> environment) {
  std::vector<std::string> shared;
  for (const std::string& line : environment) {
    const auto matters = [&](std::string_view prefix) { return line.starts_with(prefix); };
    if (line.find('=') == std::string::npos || std::ranges::none_of(kPrefixes, matters)) continue;
    shared.push_back(without_value(line));
  }
  std::ranges::sort(shared);
  return shared;
}

std::vector<std::string> without_secrets(std::span<const std::string> words) {
  std::vector<std::string> shown;
  bool is_value = false;  // of a secret option before it
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("-");
    shown.push_back(is_value && !is_option ? std::string(kHidden) : without_value(word));
    is_value = is_option && word.find('=') == std::string::npos && is_secret(word);
  }
  return shown;
}

}  // namespace ddp::launcher
