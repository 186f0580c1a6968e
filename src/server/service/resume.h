// Answers that continue after their client has disconnected. The client can connect again and read all events
// of the answer, or only those that it has not received.
#pragma once

#include <functional>
#include <memory>

#include "server/service/kept_answers.h"
#include "server/service/service.h"

namespace nibble::server {

// Sends the events of a kept answer from `number` on, until it ends or the client disconnects. No event is
// left out: an answer waits for a slow client when memory is full. Throws HttpError if the answer failed
// before its first event, if it was broken off, or if the event `number` is not kept any more.
asio::awaitable<void> send_kept(const Service& service, Exchange& exchange,
                                std::shared_ptr<KeptAnswer> answer, size_t number);
// Like send_kept() above, for an existing reader: begins with the first event that it has not received.
asio::awaitable<void> send_kept(const Service& service, Exchange& exchange, KeptAnswer::Reader& reader);

// Generates an answer that does not end with the client's connection. `generate` writes the answer to the
// exchange that is passed to it. The header X-Nibble-Answer tells the client the answer's id. If the client
// disconnects before that header is sent, the answer ends.
asio::awaitable<void> answer_resumably(Service& service, Exchange& exchange,
                                       std::function<asio::awaitable<void>(Exchange&)> generate);

// Returns the number of the first event to send: that after the number in the query's starting_after or in
// the header Last-Event-ID; 0 without these. Throws HttpError (400) if the value is not a whole number.
size_t first_wanted_event(const Exchange& exchange);

}  // namespace nibble::server
