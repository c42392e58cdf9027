#include "base/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ddp::base {
namespace {

// These parts have harmless neighbours (KEYBOARD, TOKENIZER, AUTHOR), so they count only as words of their own.
constexpr std::array<std::string_view, 6> kSecretWords = {"_KEY_", "_KEYS_", "TOKEN_", "_JWT_", "_PASS_", "_COOKIE_"};
constexpr std::array<std::string_view, 8> kSecretParts = {"SECRET",     "PASSWORD",   "PASSWD",        "APIKEY",
                                                          "CREDENTIAL", "PASSPHRASE", "AUTHORIZATION", "ACCESSKEY"};
// Tokens of Hugging Face, GitHub, GitLab, OpenAI, Slack and AWS, and JSON web tokens begin with these.
constexpr std::array<std::string_view, 9> kTokenBegins = {"hf_", "ghp_",  "gho_", "github_pat_", "glpat-",
                                                          "sk-", "xoxb-", "AKIA", "eyJ"};
constexpr std::size_t kTokenLength = 20;
constexpr std::string_view kHidden = "***";
constexpr std::string_view kSpaces = " \t\n";
constexpr std::string_view kEndsOfValue = " \t\n\"'&;,}";

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_name(char c) {
  return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return result;
}

std::size_t end_of_run(std::string_view text, std::size_t from, std::string_view ends) {
  return std::min(text.size(), text.find_first_of(ends, from));
}
std::size_t skip(std::string_view text, std::size_t from, std::string_view letters) {
  return std::min(text.size(), text.find_first_not_of(letters, from));
}

// Returns where the value of a secret begins if its name is in front of `at`, or 0. The name may be quoted, as in JSON.
std::size_t value_after(std::string_view text, std::size_t at, bool is_option) {
  const std::size_t after_quote = skip(text, at, "\"'");
  const std::size_t separator = skip(text, after_quote, kSpaces);
  if (separator < text.size() && (text[separator] == '=' || text[separator] == ':')) {
    return skip(text, skip(text, separator + 1, kSpaces), "\"'");
  }
  const bool has_value = is_option && separator > after_quote && separator < text.size() && text[separator] != '-';
  return has_value ? skip(text, separator, "\"'") : 0;
}

// Hides the password of the URL whose "://" ends at `at`. A user without a password may be a token.
std::size_t hide_password(std::string_view text, std::size_t at, bool is_http, std::string& result) {
  const std::string_view authority = text.substr(at, end_of_run(text, at, "/?# \t\n\"'") - at);
  const std::size_t sign = authority.rfind('@');
  if (sign == std::string_view::npos) return at;
  const std::size_t colon = authority.substr(0, sign).find(':');
  if (colon == std::string_view::npos && !is_http) return at;
  if (colon != std::string_view::npos) result += authority.substr(0, colon + 1);
  result += kHidden;
  return at + sign;
}

bool resembles_token(std::string_view name) {
  return name.size() >= kTokenLength &&
         std::ranges::any_of(kTokenBegins, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

bool is_secret(std::string_view name) {
  const std::string words = "_" + upper(name) + "_";
  const auto contains = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  // The name of a file that holds a secret is none.
  return !words.ends_with("_FILE_") && (words.ends_with("_AUTH_") || std::ranges::any_of(kSecretWords, contains) ||
                                        std::ranges::any_of(kSecretParts, contains));
}

std::string without_secrets(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos &&
      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), is_name) &&
      is_secret(text.substr(0, equals))) {
    return text.substr(0, equals + 1) + std::string(kHidden);
  }
  const std::string_view all = text;
  std::string result;
  for (std::size_t i = 0; i < all.size();) {
    if (!is_name(all[i])) {
      result += all[i++];
      continue;
    }
    std::size_t end = i;
    while (end < all.size() && is_name(all[end])) ++end;
    const std::string_view name = all.substr(i, end - i);
    if (resembles_token(name)) {
      result += kHidden;
      i = end;
      continue;
    }
    result += name;
    i = end;
    if (all.substr(end).starts_with("://")) {
      result += "://";
      i = hide_password(all, end + 3, upper(name).starts_with("HTTP"), result);
      continue;
    }
    const std::string word = upper(name);
    const bool is_bearer = word == "BEARER" && end < all.size() && kSpaces.find(all[end]) != std::string_view::npos;
    const std::size_t value = is_bearer         ? skip(all, end, kSpaces)
                              : is_secret(name) ? value_after(all, end, name.starts_with('-'))
                                                : 0;
    if (value == 0 || value >= all.size()) continue;
    // The value of a header contains spaces.
    const std::size_t value_end = end_of_run(all, value, word == "AUTHORIZATION" ? "\"'\n" : kEndsOfValue);
    result += std::string(all.substr(end, value - end)) + std::string(kHidden);
    i = value_end;
  }
  return result;
}

std::string without_secrets(std::string_view name, const std::string& value) {
  return is_secret(name) ? std::string(kHidden) : without_secrets(value);
}

std::vector<std::string> without_secrets(std::span<const std::string> words) {
  std::vector<std::string> shown;
  bool is_value = false;  // of a secret option before it
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("-");
    shown.push_back(is_value && !is_option ? std::string(kHidden) : without_secrets(word));
    const bool names_secret = is_option && word.find('=') == std::string::npos && is_secret(word);
    is_value = names_secret || upper(word) == "BEARER" || (is_value && !is_option && upper(word) == "BASIC") ||
               upper(word) == "AUTHORIZATION:";
  }
  return shown;
}

}  // namespace ddp::base
