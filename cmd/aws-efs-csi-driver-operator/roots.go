package main

// The operator's image contains no CA certificates, so the program contains CA certificates. If the system has CA certificates, the program uses
// these instead.
import _ "golang.org/x/crypto/x509roots/fallback"
