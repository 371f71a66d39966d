package main

// The operator's image contains no CA certificates, so the program embeds some. If the system has CA certificates, the program uses those of the
// system.
import _ "golang.org/x/crypto/x509roots/fallback"
