// GET and DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel, GET /v1/responses/{id}/input_items
#include <algorithm>
#include <charconv>

#include "core/text/json.h"
#include "server/endpoints/endpoints.h"
#include "server/endpoints/responses.h"
#include "server/http/url.h"
#include "server/service/resume.h"

namespace nibble::server {
namespace {

std::string id_in(const Exchange& exchange, std::string_view after = "") {
  const std::string path = with_v1(exchange.path());
  return std::string(match_path("/v1/responses/{id}" + std::string(after), path).value_or(""));
}

HttpError not_found(const std::string& id) {
  HttpError error(
      404, "Response with id '{}' not found: it was never stored, or was dropped for newer responses.", id);
  error.param = "response_id";
  return error;
}

const StoredResponse& stored(Service& service, const Exchange& exchange, const std::string& id) {
  const StoredResponse* found = service.responses.find({exchange.record().key_owner, id});
  if (!found) throw not_found(id);
  return *found;
}

int read_limit(const Exchange& exchange) {
  const std::string text = query_value(exchange.query(), "limit").value_or("20");
  int limit{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (fault != std::errc{} || end != text.data() + text.size() || limit < 1 || limit > 100) {
    HttpError error(400, "limit must be a whole number from 1 to 100, not '{}'", text.substr(0, 60));
    error.param = "limit";
    throw error;
  }
  return limit;
}

// Sends those events of a streamed background response that follow event number `starting_after` (query).
asio::awaitable<void> send_events(Service& service, Exchange& exchange, const std::string& id) {
  const size_t number = first_wanted_event(exchange);
  std::shared_ptr<KeptAnswer> events = service.kept_answers.find({exchange.record().key_owner, id});
  if (events) return send_kept(service, exchange, std::move(events), number);
  if (!find_running(service, exchange, id))
    stored(service, exchange, id);  // throws if the response is unknown
  HttpError error(400,
                  "stream must be false: the events of response '{}' are not kept. They are kept for a time, "
                  "if it was made with background and stream",
                  id);
  error.param = "stream";
  throw error;
}

}  // namespace

asio::awaitable<void> get_response(Service& service, Exchange& exchange) {
  const std::string id = id_in(exchange);
  if (query_value(exchange.query(), "stream") == "true") return send_events(service, exchange, id);
  if (BackgroundResponse* response = find_running(service, exchange, id))
    return reply_json(exchange, 200, response->answer.object().json());
  return exchange.reply(200, kJsonType, stored(service, exchange, id).json + "\n");
}

asio::awaitable<void> delete_response(Service& service, Exchange& exchange) {
  const std::string id = id_in(exchange);
  service.kept_answers.erase({exchange.record().key_owner, id});
  if (BackgroundResponse* response = find_running(service, exchange, id)) {
    response->is_deleted = true;
    response->exchange.cancel();
  } else if (!service.responses.erase({exchange.record().key_owner, id})) {
    throw not_found(id);
  }
  return reply_json(exchange, 200, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

asio::awaitable<void> cancel_response(Service& service, Exchange& exchange) {
  const std::string id = id_in(exchange, "/cancel");
  if (BackgroundResponse* response = find_running(service, exchange, id)) {
    response->exchange.cancel();
    Json cancelled = response->answer.object().json();
    cancelled["status"] = "cancelled";
    return reply_json(exchange, 200, cancelled);
  }
  const StoredResponse& found = stored(service, exchange, id);
  if (!Json::parse(found.json)["background"].get<bool>())
    throw HttpError(400, "Response '{}' can't be cancelled: it is complete and not a background response",
                    id);
  return exchange.reply(200, kJsonType, found.json + "\n");
}

// Lists the items of a request, newest first unless the query has order=asc. The query's `after` is the id of
// the last item that the client already has.
asio::awaitable<void> response_input_items(Service& service, Exchange& exchange) {
  const std::string id = id_in(exchange, "/input_items");
  const auto limit = static_cast<size_t>(read_limit(exchange));
  const BackgroundResponse* response = find_running(service, exchange, id);
  const std::vector<StoredItem>& items =
      response ? response->request.input_items : stored(service, exchange, id).input;
  std::vector<const StoredItem*> order;
  for (const StoredItem& item : items) order.push_back(&item);
  if (query_value(exchange.query(), "order") != "asc") std::ranges::reverse(order);
  auto first = order.begin();
  if (const auto after = query_value(exchange.query(), "after")) {
    first = std::ranges::find_if(order, [&](const StoredItem* item) { return item->id == *after; });
    if (first != order.end()) ++first;
  }
  const auto end = first + std::min<ptrdiff_t>(static_cast<ptrdiff_t>(limit), order.end() - first);
  Json page{{"object", "list"}, {"data", Json::array()}, {"first_id", nullptr}, {"last_id", nullptr}};
  for (auto item = first; item != end; ++item) page["data"].push_back(Json::parse((*item)->json));
  if (first != end) page["first_id"] = (*first)->id;
  if (first != end) page["last_id"] = end[-1]->id;
  page["has_more"] = end != order.end();
  return reply_json(exchange, 200, page);
}

}  // namespace nibble::server
