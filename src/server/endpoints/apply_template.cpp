// POST /apply-template: returns the text of the prompt that a chat becomes.
#include "server/routes.h"

namespace nibble::server {

asio::awaitable<void> apply_template(Service& service, Exchange& exchange) {
  Json answer = Json::object();
  co_await aside(service, exchange, [&] {
    const ChatRequest request = read_chat_request(exchange.body());
    check_model(service, request.params);
    answer["prompt"] = render(service, request.chat).text;
  });
  co_await exchange.reply(200, std::move(answer));
}

}  // namespace nibble::server
