// The HTTP server from its first connection to its last. It listens before the model is there (and says so), and ends by
// signals.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/http/http.h"
#include "server/service.h"

namespace nibble::server {

class Server {
 public:
  // Listens from now on, on a thread of its own. Throws InputError where it can't.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const;  // http://127.0.0.1:8080, or unix:PATH
  uint16_t port() const;
  // For EngineOptions::on_step; lives as long as the server.
  Metrics& metrics();

  // The model is there: requests are answered when this returns. `max_requests` run and wait at the same time. The engine
  // and the tokenizer outlive serve(). Called once.
  void open(Engine& engine, const ServedModel& model, size_t max_requests);

  // Serves until SIGINT or SIGTERM, then refuses what is new and ends what runs; requests that are not done after
  // shutdown_timeout are cancelled, and a second signal ends at once. Whether every request came to its own end.
  // Called once, after open().
  bool serve(Engine& engine);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
