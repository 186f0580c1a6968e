// The HTTP server from start to shutdown. It listens before the model is loaded, and answers 503 until then; SIGINT and
// SIGTERM end it, and while the model loads the whole program, with exit code 130.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/service/metrics.h"
#include "server/service/options.h"

namespace nibble::server {

class Server {
 public:
  // Starts to listen, on a thread of its own. Throws InputError if the address can't be bound.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const;  // http://127.0.0.1:8080, or unix:PATH
  uint16_t port() const;
  // For EngineOptions::on_step; lives as long as the server.
  Metrics& metrics();

  // The model is loaded: when this returns, requests are answered. At most `max_requests` answers run and wait at the same
  // time. The engine and the tokenizer must outlive serve(). Called once.
  void open(Engine& engine, const ServedModel& model, size_t max_requests);

  // Serves until SIGINT or SIGTERM. From then on /health says that it is not ready; after shutdown_delay new requests are refused and
  // running ones end; those that are not done after shutdown_timeout are cancelled. A second signal ends at once. Returns whether
  // every request was answered in full. Called once, after open().
  bool serve(Engine& engine);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
