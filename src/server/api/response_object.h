// Builds the JSON object of a response (/v1/responses) and the events of its stream.
#pragma once

#include <string>
#include <vector>

#include "core/text/json.h"
#include "server/api/reply.h"
#include "server/api/response_items.h"
#include "server/api/response_request.h"
#include "server/http/http_error.h"

namespace nibble::server {

class ResponseObject {
 public:
  ResponseObject(const ReplyHead& head, const Tokenizer& tokenizer, const ResponseRequest& request);

  // push() and end() return the next server-sent events, or "" without a stream. The first call also returns
  // the events that begin the stream.
  std::string push(const std::vector<AnswerDelta>& deltas);
  std::string end(const std::vector<AnswerDelta>& deltas, bool is_complete);
  std::string close(const Usage& usage);  // the last event; then json() is complete
  std::string fail(const HttpError& error);
  std::string break_off(const HttpError& error);  // like fail(), without output items: they may be incomplete
  std::string cancel();                           // adds the event response.cancelled
  // For a background response: queue() returns the events to send while it is queued, start() the event to
  // send when it starts.
  std::string queue();
  std::string start();
  // Returns an event to send during long silence: some clients give up after minutes without one.
  std::string still_in_progress();

  const Json& json() const { return whole_; }

 private:
  std::string events_of(const std::vector<Json>& events);
  std::string print_event(Json event);

  ResponseItems items_;
  bool is_stream_;
  Json whole_;
  int num_events_{0};
};

}  // namespace nibble::server
