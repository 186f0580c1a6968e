// POST /apply-template: returns a chat's prompt as text.

#include "core/text/json.h"
#include "server/api/chat_request.h"
#include "server/endpoints/endpoints.h"
#include "server/service/prompt.h"

namespace nibble::server {

asio::awaitable<void> apply_template(Service& service, Exchange& exchange) {
  Json answer = Json::object();
  IgnoredFields ignored;
  co_await offload_if_long(service, exchange, [&] {
    const ChatRequest request = read_chat_request(exchange.body(), service.options.defaults);
    check_model(service, request.params);
    answer["prompt"] = chat_prompt(service, request).text;
    ignored = request.params.ignored;
  });
  note_ignored(service, exchange, ignored);
  co_await reply_json(exchange, 200, std::move(answer));
}

}  // namespace nibble::server
