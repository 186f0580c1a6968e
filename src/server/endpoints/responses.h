// A response in progress: for a client that waits, or in the background.
#pragma once

#include <string>
#include <utility>

#include "server/api/chat_answer.h"
#include "server/api/response_object.h"
#include "server/api/response_request.h"
#include "server/service/background.h"
#include "server/service/service.h"

namespace nibble::server {

class ResponseAnswer : public ChoiceListener {
 public:
  ResponseAnswer(const ReplyHead& head, const Tokenizer& tokenizer, const ResponseRequest& request)
      : answer_(tokenizer, request.offered, request.params.stop, {}, request.params.stream_interval),
        object_(head, tokenizer, request) {}

  std::string on_token(size_t choice, TokenEvent& event) override;
  bool has_enough(size_t) const override { return answer_.has_stopped(); }
  std::string on_end(size_t choice, FinishReason reason, const std::string& text) override;
  std::string on_silence() override { return object_.still_in_progress(); }

  std::string close(Usage usage) {
    usage.num_reasoning_tokens = answer_.num_reasoning_tokens();
    return object_.close(usage);
  }
  ResponseObject& object() { return object_; }

 private:
  ChatAnswer answer_;
  ResponseObject object_;
};

class BackgroundResponse {
 public:
  BackgroundResponse(const ReplyHead& head, const Tokenizer& tokenizer, ResponseRequest given)
      : exchange(head.id, "/v1/responses"), request(std::move(given)), answer(head, tokenizer, request) {}

  BackgroundExchange exchange;
  ResponseRequest request;
  ResponseAnswer answer;
  bool is_deleted{false};
};

// Returns the background response of this id while it runs; null if absent or if another key owns it.
BackgroundResponse* find_running(Service& service, const Exchange& exchange, const std::string& id);

}  // namespace nibble::server
