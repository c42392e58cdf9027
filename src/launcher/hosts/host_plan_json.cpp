#include <nlohmann/json.hpp>

#include "launcher/hosts/host_plan.h"

namespace ddp::launcher {

std::string describe_json(const HostPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json hosts = Json::array();
  for (const HostStart& start : plan.starts) {
    hosts.push_back(Json{{"host", start.host}, {"ssh", ssh_command(start)}, {"words", start.order.words}});
  }
  const HostOrder& order = plan.starts.front().order;
  const Json json{{"directory", order.directory},
                  {"environment", order.environment},
                  {"has_token", !order.token.empty()},
                  {"hosts", hosts}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher
