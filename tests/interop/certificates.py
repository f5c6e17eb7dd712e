"""Certificates for one run: an authority, what it issued to the broker and to a user, and an authority that nobody trusts.

Enters: a folder, and `openssl` on PATH.  Leaves: PEM files in that folder.
Owns:   nothing.
Never:  leaves the folder of the run: no key here protects anything.
"""

import shutil
import subprocess
from pathlib import Path

DAYS = "60"  # longer than what a broker warns of
# The user that the client's certificate names: both brokers take the common name.
USER = "guest"


class NoCertificates(Exception):
    """Says why there are none."""


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise NoCertificates(f"openssl {words[0]}: {' '.join(done.stderr.split())[-300:]}")


class Certificates:
    def __init__(self, folder):
        if not shutil.which("openssl"):
            raise NoCertificates("there is no openssl here")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ca = self.authority("ca")
        self.foreign_ca = self.authority("foreign-ca")
        self.server, self.server_key = self.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1", "serverAuth")
        self.client, self.client_key = self.issue(USER, USER, f"DNS:{USER}", "clientAuth")

    def key(self, name):
        path = self.folder / f"{name}.key"
        # PKCS #8, which is what Java reads.
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
        return path

    def authority(self, name):
        path = self.folder / f"{name}.pem"
        openssl("req", "-x509", "-new", "-key", self.key(name), "-subj", f"/CN={name}", "-days", DAYS, "-out", path)
        return path

    def issue(self, name, common_name, alternatives, purpose):
        key, request, path = self.key(name), self.folder / f"{name}.csr", self.folder / f"{name}.pem"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage={purpose}\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-new", "-key", key, "-subj", f"/CN={common_name}", "-out", request)
        openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
            "-days", DAYS, "-extfile", extensions, "-out", path,
        )  # fmt: skip
        return path, key
