#include "launcher/remote/host_order.h"

#include <ddp/version.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "wire/control_message.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// JSON's texts are Unicode, arguments and variables are bytes.
using wire::bytes_to_text;
using wire::text_to_bytes;

std::vector<std::string> bytes_to_text(const std::vector<std::string>& all) {
  std::vector<std::string> texts;
  for (const std::string& each : all) texts.push_back(bytes_to_text(each));
  return texts;
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> all;
  for (const Json& each : json.at(name)) all.push_back(text_to_bytes(each.get<std::string>()));
  return all;
}

std::string text_of(const Json& json, const char* name) {
  return text_to_bytes(json.at(name).get<std::string>());
}

}  // namespace

std::string encode(const HostOrder& order) {
  return Json{{"protocol", kHostProtocol},
              {"version", DDP_VERSION_STRING},
              {"nonce", order.nonce},
              {"starter", bytes_to_text(order.starter)},
              {"host", bytes_to_text(order.host)},
              {"directory", bytes_to_text(order.directory)},
              {"words", bytes_to_text(order.words)},
              {"environment", bytes_to_text(order.environment)},
              {"token", bytes_to_text(order.token)}}
      .dump();
}

base::Result<HostOrder> decode_order(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.at("protocol").get<int>() != kHostProtocol) {
      return base::Failure{"the launcher that started this one is ddplaunch " + json.at("version").get<std::string>() +
                           " and gives its orders in another form than ddplaunch " DDP_VERSION_STRING
                           " reads them. Install the same version here, or name it with --remote-launcher."};
    }
    HostOrder order;
    order.nonce = json.at("nonce").get<std::string>();
    order.starter = text_of(json, "starter");
    order.host = text_of(json, "host");
    order.directory = text_of(json, "directory");
    order.words = texts_of(json, "words");
    order.environment = texts_of(json, "environment");
    order.token = text_of(json, "token");
    if (!order.words.empty()) return order;
  } catch (const Json::exception&) {
  }
  return base::Failure{
      "what came over the standard input is no order of ddplaunch --hosts, the only one that starts ddplaunch "
      "on-host."};
}

std::string encode(const StarterWord& word) {
  return (word.go ? Json{{"go", true}} : Json{{"signal", word.signal}}).dump();
}

std::optional<StarterWord> decode_word(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.contains("go")) return StarterWord{json.at("go").get<bool>(), 0};
    return StarterWord{false, json.at("signal").get<int>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string answer_mark(const std::string& nonce) {
  return "\x1e"
         "ddplaunch " +
         nonce + " ";
}

std::string encode(const HostAnswer& answer) {
  return answer.ended ? "ended " + std::to_string(*answer.ended) : "ready";
}

std::optional<HostAnswer> decode_answer(std::string_view text) {
  constexpr std::string_view kEnded = "ended ";
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text == "ready") return HostAnswer{true, std::nullopt};
  if (!text.starts_with(kEnded)) return std::nullopt;
  const auto code = base::parse_integer(text.substr(kEnded.size()), 0, 255);
  if (!code) return std::nullopt;
  return HostAnswer{false, static_cast<int>(*code)};
}

}  // namespace ddp::launcher
