#include "admission/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "base/files.h"

namespace lucid {
namespace {

Error Refuse(const std::string& file, std::string_view what) {
  ERR_clear_error();  // per thread, and read by the next call of OpenSSL otherwise
  return InvalidInput(fmt::format("{}: {}", file, what));
}

}  // namespace

Result<std::shared_ptr<boost::asio::ssl::context>> LoadTls(const std::string& certificate,
                                                           const std::string& key,
                                                           const std::string& client_ca) {
  namespace ssl = boost::asio::ssl;
  for (const std::string& path : {certificate, key}) {  // OpenSSL does not say what is in the way
    const auto opened = File::OpenToRead(path);
    if (!opened.ok()) return opened.error();
  }
  struct stat info {};
  if (::stat(key.c_str(), &info) == 0 && (info.st_mode & 07) != 0) {
    return Refuse(key, fmt::format("has mode {:04o}: everybody on this machine may read the "
                                   "private key or change it: chmod o= {}",
                                   info.st_mode & 07777, key));
  }
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_options(
      native, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
  if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(native, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    return InternalError("this OpenSSL has no TLS 1.2 with ECDHE and AES-GCM");
  }
  // Without one, a key with a passphrase would ask for it on the terminal.
  SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return 0; });
  boost::system::error_code error;
  context->use_certificate_chain_file(certificate, error);
  if (error) return Refuse(certificate, "not a readable certificate chain in PEM");
  context->use_private_key_file(key, ssl::context::pem, error);
  if (error)
    return Refuse(key,
                  "not a readable private key in PEM without a passphrase, or not "
                  "that of the certificate");
  if (SSL_CTX_check_private_key(native) != 1) return Refuse(key, "not the certificate's key");
  if (client_ca.empty()) return context;
  const auto opened = File::OpenToRead(client_ca);
  if (!opened.ok()) return opened.error();
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(client_ca.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(native, client_ca.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return Refuse(client_ca, "holds no certificates in PEM");
  }
  SSL_CTX_set_client_CA_list(native, names);  // owns them
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A resumed session would pass with a certificate that was good then.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  return context;
}

}  // namespace lucid
