// POST /apply-template: returns the text of the prompt that a chat becomes.
#include <nlohmann/json.hpp>

#include "server/api/chat_request.h"
#include "server/endpoints/endpoints.h"

namespace nibble::server {

asio::awaitable<void> apply_template(Service& service, Exchange& exchange) {
  Json answer = Json::object();
  co_await offload_if_long(service, exchange, [&] {
    const ChatRequest request = read_chat_request(exchange.body());
    check_model(service, request.params);
    answer["prompt"] = render(service, request.chat).text;
  });
  co_await reply_json(exchange, 200, std::move(answer));
}

}  // namespace nibble::server
