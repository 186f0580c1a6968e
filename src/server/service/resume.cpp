#include "server/service/resume.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "server/api/error.h"
#include "server/http/random_id.h"
#include "server/http/url.h"
#include "server/service/access_log.h"
#include "server/service/background.h"

namespace nibble::server {
namespace {

constexpr size_t kMostBytes{256 << 10};  // maximum for one write

// During its lifetime, an exchange calls `function` if the client disconnects.
class DisconnectFunction {
 public:
  DisconnectFunction(Exchange& exchange, std::function<void()> function) : exchange_(exchange) {
    exchange.on_disconnect(std::move(function));
  }
  ~DisconnectFunction() { exchange_.on_disconnect(nullptr); }
  DisconnectFunction(const DisconnectFunction&) = delete;
  DisconnectFunction& operator=(const DisconnectFunction&) = delete;

 private:
  Exchange& exchange_;
};

HttpError events_are_gone(size_t number) {
  return HttpError(
      404, "the events from {} on are not kept any more: the server's memory for answers is full", number);
}

// The request that began an answer. If the answer ends while this request reads it, the request is logged
// with the answer's counts.
class FirstReader {
 public:
  FirstReader(Service& service, Exchange& exchange, std::shared_ptr<BackgroundExchange> kept, OwnedId id)
      : service_(service), exchange_(exchange), kept_(std::move(kept)), id_(std::move(id)) {
    kept_->set_logged_elsewhere(true);
  }
  ~FirstReader() {
    kept_->set_logged_elsewhere(false);
    if (!exchange_.has_events()) service_.kept_answers.erase(id_);
    if (kept_->status() == 0) return;
    std::swap(exchange_.record(), kept_->record());
    exchange_.record().times.first_byte = kept_->record().times.first_byte;
  }
  FirstReader(const FirstReader&) = delete;
  FirstReader& operator=(const FirstReader&) = delete;

 private:
  Service& service_;
  Exchange& exchange_;
  std::shared_ptr<BackgroundExchange> kept_;
  OwnedId id_;
};

// Ends a kept answer early: with `failure`, or, if `failure` is absent, as stopped.
void end_early(KeptAnswer& answer, const std::optional<HttpError>& failure) {
  const HttpError error = failure.value_or(HttpError(kClientGone, "the answer was stopped"));
  if (!answer.has_begun()) return answer.fail(error);
  answer.append(sse_event(error_json(error)) + std::string(kSseDone));
  answer.end(error.status);
}

// Breaks the answer off on destruction, unless it has ended: memory may run out before the answer's last
// event is stored.
class LastEnd {
 public:
  explicit LastEnd(KeptAnswer& answer) : answer_(answer) {}
  ~LastEnd() { answer_.break_off(); }
  LastEnd(const LastEnd&) = delete;
  LastEnd& operator=(const LastEnd&) = delete;

 private:
  KeptAnswer& answer_;
};

asio::awaitable<void> run_kept(Service& service, std::shared_ptr<BackgroundExchange> exchange,
                               std::shared_ptr<KeptAnswer> answer,
                               std::function<asio::awaitable<void>(Exchange&)> generate) {
  const LastEnd last_end(*answer);
  std::optional<HttpError> failure;
  try {
    co_await generate(*exchange);
  } catch (const HttpError& error) {
    failure = error;
  } catch (const InputError& error) {
    failure = to_http_error(error);
  } catch (const std::exception& error) {
    log::warn("{} failed: {}", exchange->id(), error.what());
    failure = HttpError(500, "internal error: {}", error.what());
  }
  if (!answer->has_ended()) end_early(*answer, failure);
  exchange->set_status(answer->status());
  if (exchange->is_logged_elsewhere()) co_return;
  service.metrics.observe_key(*exchange);
  log_access(*exchange, exchange->record().clock.seconds());
  service.recent_requests.add(*exchange);
}

}  // namespace

asio::awaitable<void> send_kept(const Service& service, Exchange& exchange,
                                std::shared_ptr<KeptAnswer> answer, size_t number) {
  if (exchange.method() == "HEAD") {
    co_await exchange.reply(200, "text/event-stream", "");
    co_return;
  }
  if (number < answer->first()) throw events_are_gone(number);
  KeptAnswer::Reader reader(std::move(answer), number);
  co_await send_kept(service, exchange, reader);
}

asio::awaitable<void> send_kept(const Service& service, Exchange& exchange, KeptAnswer::Reader& reader) {
  const std::shared_ptr<KeptAnswer> answer = reader.answer();
  size_t number = reader.number();
  bool is_gone = false;
  const DisconnectFunction on_disconnect(exchange, [&] {
    is_gone = true;
    reader.wake();
  });
  while (!is_gone) {
    if (answer->failure() && !exchange.has_events()) throw HttpError(*answer->failure());
    std::string events;
    if (number < answer->next()) {
      events = answer->read(number, kMostBytes);
    } else if (answer->has_ended()) {
      break;
    } else if (answer->has_begun() && !exchange.has_events()) {
      events = kSseKeepAlive;  // a comment, so that the client gets the header before the first event
    } else {
      const bool is_news = co_await reader.wait(service.options.keep_alive);
      if (!is_news && exchange.has_events()) events = kSseKeepAlive;
    }
    if (!events.empty()) co_await exchange.write_events(std::move(events));
    reader.advance(number);
  }
  if (is_gone) co_return;
  // Throw: if the stream ended normally, the client would take the answer for complete.
  if (answer->is_broken_off()) throw HttpError(answer->status(), "the answer failed: out of memory");
  if (!exchange.has_events()) {
    std::string nothing(kSseKeepAlive);
    co_await exchange.write_events(std::move(nothing));
  }
  co_await exchange.end_events(answer->status());
}

asio::awaitable<void> answer_resumably(Service& service, Exchange& exchange,
                                       std::function<asio::awaitable<void>(Exchange&)> generate) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto kept = std::make_shared<BackgroundExchange>(exchange.id(), std::string(exchange.path()));
  kept->record() = exchange.record();
  const OwnedId id{exchange.record().key_owner, "ans_" + random_id()};
  const auto stop = [weak = std::weak_ptr(kept)] {
    if (const auto running = weak.lock()) running->cancel();
  };
  const FirstReader first(service, exchange, kept, id);  // erases the answer if the client gets no event
  const std::shared_ptr<KeptAnswer> answer =
      service.kept_answers.add(executor, id, {.has_id_lines = true, .ends_unread = true, .stop = stop});
  kept->keep_events(answer);
  KeptAnswer::Reader reader(answer, 0);  // created before the first event, so that no event is lost
  exchange.add_header("X-Nibble-Answer", answer->id());
  asio::co_spawn(executor, run_kept(service, kept, answer, std::move(generate)), asio::detached);
  co_await send_kept(service, exchange, reader);
}

size_t first_wanted_event(const Exchange& exchange) {
  const std::optional<std::string> query = query_value(exchange.query(), "starting_after");
  const std::string text = query.value_or(std::string(exchange.header("Last-Event-ID")));
  if (!query && text.empty()) return 0;
  uint32_t last{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), last);
  if (fault == std::errc{} && end == text.data() + text.size()) return size_t{last} + 1;
  HttpError error(400, "{} must be the number of an event, not '{}'",
                  query ? "starting_after" : "Last-Event-ID", text.substr(0, 60));
  error.param = "starting_after";
  throw error;
}

}  // namespace nibble::server
