// A guard takes its bounds from a verified certificate: there is no way to type one in.
#include "lucid/guard/guard.h"

namespace {

[[maybe_unused]] bool Use(const lucid::Network& network, const lucid::Certificate& certificate,
                          const lucid::VerifiedCertificate& verified, const lucid::Schema& schema,
                          const lucid::GuardKey& key) {
  lucid::GuardOptions options;
#if CASE == 0
  return lucid::Guard::Create(network, verified, schema, options, key).ok();
#elif CASE == 1
  return lucid::Guard::Create(network, certificate, schema, options, key).ok();
#elif CASE == 2
  return lucid::Guard::Create(network, 0.5, schema, options, key).ok();
#elif CASE == 3
  return lucid::Guard::Create(network, {0.5, 0.5}, schema, options, key).ok();
#elif CASE == 4
  options.beta = 0.5;
  return lucid::Guard::Create(network, verified, schema, options, key).ok();
#elif CASE == 5
  return lucid::Guard::Create(network, verified, schema, options, lucid::GuardKey()).ok();
#elif CASE == 6
  return lucid::Guard::Create(network, verified, schema, options, 1234).ok();
#endif
}

}  // namespace
