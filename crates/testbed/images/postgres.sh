#!/bin/sh
# Runs PostgreSQL under Patroni, with Kubernetes as its store of who leads.
#
# From the pod: SCOPE (name of the cluster, also its `app` label), POD_NAME, POD_IP, NAMESPACE.
# Settings: DATA (directory on the volume), TTL, LOOP_WAIT, RETRY_TIMEOUT in seconds,
# SYNCHRONOUS (true or false).
set -eu

DATA=${DATA:-/data/postgres}
mkdir -p "$DATA"
chmod 700 "$DATA"

cat > /tmp/patroni.yml <<END
scope: $SCOPE
name: ${POD_NAME:-$(hostname)}
restapi:
  listen: 0.0.0.0:8008
  connect_address: $POD_IP:8008
kubernetes:
  namespace: $NAMESPACE
  labels: {app: $SCOPE}
  scope_label: cluster-name
  role_label: role
  use_endpoints: false
  pod_ip: $POD_IP
bootstrap:
  dcs:
    ttl: ${TTL:-30}
    loop_wait: ${LOOP_WAIT:-10}
    retry_timeout: ${RETRY_TIMEOUT:-10}
    maximum_lag_on_failover: 1048576
    synchronous_mode: ${SYNCHRONOUS:-false}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
        max_connections: 50
        shared_buffers: 32MB
        wal_keep_size: 64MB
        wal_log_hints: "on"
  initdb:
    - encoding: UTF8
    - locale: C.UTF-8
    - data-checksums
postgresql:
  listen: 0.0.0.0:5432
  connect_address: $POD_IP:5432
  data_dir: $DATA
  bin_dir: /usr/lib/postgresql/15/bin
  pgpass: /tmp/pgpass
  parameters:
    unix_socket_directories: /tmp
  authentication:
    superuser: {username: postgres, password: ${POSTGRES_PASSWORD:-postgres}}
    replication: {username: replicator, password: ${REPLICATION_PASSWORD:-replicator}}
    rewind: {username: rewinder, password: ${REWIND_PASSWORD:-rewinder}}
  pg_hba:
    - local all all trust
    - host all all 0.0.0.0/0 md5
    - host replication all 0.0.0.0/0 md5
END

export HOME=/tmp
exec patroni /tmp/patroni.yml
