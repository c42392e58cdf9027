// Hides secrets in words and variables before they are shown, stored or sent. The functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::base {

// Returns whether a variable or an option of this name may hold a secret, such as "HF_TOKEN" or "--api-key".
bool is_secret(std::string_view name);

// Returns the text with "***" in place of each value of a secret name (NAME=VALUE, NAME: VALUE, --name VALUE), of the
// password in a URL, of what follows "Bearer", and of words that look like the tokens of well-known services.
std::string without_secrets(const std::string& text);

// Returns the value of a variable or an option of this name, or "***" if the name is that of a secret.
std::string without_secrets(std::string_view name, const std::string& value);

// Returns the words of a command line. A value may be the word after its name.
std::vector<std::string> without_secrets(std::span<const std::string> words);

}  // namespace ddp::base
