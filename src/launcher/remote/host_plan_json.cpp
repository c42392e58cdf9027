#include <nlohmann/json.hpp>

#include "launcher/remote/host_plan.h"

namespace ddp::launcher {

std::string describe_json(const HostPlan& plan) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson hosts = OrderedJson::array();
  for (const HostStart& start : plan.starts) {
    hosts.push_back(OrderedJson{{"host", start.host}, {"ssh", ssh_command(start)}, {"words", start.request.words}});
  }
  const LaunchRequest& request = plan.starts.front().request;
  const OrderedJson json{{"directory", request.directory},
                         {"environment", request.environment},
                         {"has_token", !request.token.empty()},
                         {"hosts", hosts}};
  return json.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher
