// GET and DELETE /v1/answers/{id}: answers to requests with "resumable".
#include "server/endpoints/endpoints.h"
#include "server/http/url.h"
#include "server/service/resume.h"

namespace nibble::server {
namespace {

OwnedId answer_id(const Exchange& exchange) {
  const std::string path = with_v1(exchange.path());
  return {exchange.record().key_owner, std::string(match_path("/v1/answers/{id}", path).value_or(""))};
}

HttpError answer_not_found() {
  return HttpError(404,
                   "This answer is not kept any more: the server was restarted, kept it for the time of "
                   "--resume-time, or dropped it for newer answers.");
}

}  // namespace

asio::awaitable<void> get_answer(Service& service, Exchange& exchange) {
  const size_t number = first_wanted_event(exchange);
  std::shared_ptr<KeptAnswer> answer = service.kept_answers.find(answer_id(exchange));
  if (!answer) throw answer_not_found();
  return send_kept(service, exchange, std::move(answer), number);
}

asio::awaitable<void> delete_answer(Service& service, Exchange& exchange) {
  const OwnedId id = answer_id(exchange);
  if (!service.kept_answers.erase(id)) throw answer_not_found();
  return reply_json(exchange, 200, {{"id", id.id}, {"object", "answer"}, {"deleted", true}});
}

}  // namespace nibble::server
