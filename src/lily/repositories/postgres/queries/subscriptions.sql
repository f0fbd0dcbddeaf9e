-- Subscriptions: what is to be told, and by whose rights.

-- name: load_subscriptions
-- PostgresSubscriptions.load: all that can tell something, with the rights their owners have now. Left out are
-- those of people who are gone or may no longer log in, and those made with a key that has ended. Last what is known
-- of the key: the roles its owner had, those they have now (NULL: they are not in the directory), and its end.
SELECT s.subscription_id::text, s.name, coalesce(u.user_name, s.owner), s.selection, s.connector_id, s.options,
       s.title, s.text, s.is_disabled, s.created_at, s.updated_at, k.name, s.scopes, s.roles,
       coalesce(k.owner_roles, '{}') || coalesce(u.roles, '{}') || ARRAY(
            SELECT DISTINCT r.role FROM group_roles AS r
             WHERE r.tenant_id = %(tenant_id)s AND r.group_name = ANY(s.groups || member_of.names)),
       s.groups || member_of.names, coalesce(k.owner_groups, '{}'), coalesce(k.owner_roles, '{}'),
       CASE WHEN u.user_id IS NOT NULL THEN coalesce(k.vouched_roles, '{}') || u.roles || ARRAY(
            SELECT DISTINCT r.role FROM group_roles AS r
             WHERE r.tenant_id = %(tenant_id)s AND r.group_name = ANY(member_of.names)) END,
       extract(epoch FROM k.expires_at)::float8
  FROM subscriptions AS s
  LEFT JOIN users AS u ON u.tenant_id = %(tenant_id)s
        AND (u.user_id = s.user_id OR (s.user_id IS NULL AND lower(u.user_name) = lower(s.owner)))
  LEFT JOIN api_keys AS k ON k.tenant_id = %(tenant_id)s AND k.key_id = s.key_id
 CROSS JOIN LATERAL (
       SELECT ARRAY(SELECT g.display_name FROM group_members AS m
                      JOIN groups AS g ON g.tenant_id = m.tenant_id AND g.group_id = m.group_id
                     WHERE m.tenant_id = %(tenant_id)s AND m.user_id = u.user_id) AS names) AS member_of
 WHERE s.tenant_id = %(tenant_id)s AND NOT s.is_disabled
   AND coalesce(u.active, s.user_id IS NULL)
   AND (s.key_id IS NULL OR (k.key_id IS NOT NULL AND k.revoked_at IS NULL
                              AND k.expires_at > clock_timestamp()))
 ORDER BY s.subscription_id

-- name: insert_subscription
-- PostgresSubscriptions.add: nothing when the owner has as many as one may have.
INSERT INTO subscriptions (tenant_id, subscription_id, name, owner, user_id, key_id, roles, groups, scopes,
                           selection, connector_id, options, title, text, is_disabled)
SELECT %(tenant_id)s, %(subscription_id)s, %(name)s, %(owner)s,
       (SELECT user_id FROM users WHERE tenant_id = %(tenant_id)s AND lower(user_name) = lower(%(owner)s)),
       %(key_id)s, %(roles)s, %(groups)s, %(scopes)s, %(selection)s, %(connector_id)s, %(options)s, %(title)s,
       %(text)s, %(is_disabled)s
 WHERE (SELECT count(*) FROM subscriptions WHERE tenant_id = %(tenant_id)s AND lower(owner) = lower(%(owner)s))
       < %(most)s
RETURNING subscription_id::text, name, owner, selection, connector_id, options, title, text, is_disabled,
          created_at, updated_at

-- name: update_subscription
-- PostgresSubscriptions.replace: with the rights of the credential that says so.
UPDATE subscriptions
   SET key_id = %(key_id)s, roles = %(roles)s, groups = %(groups)s, scopes = %(scopes)s, name = %(name)s, selection = %(selection)s, connector_id = %(connector_id)s, options = %(options)s,
       title = %(title)s, text = %(text)s, is_disabled = %(is_disabled)s, updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND subscription_id = %(subscription_id)s
RETURNING subscription_id::text, name, owner, selection, connector_id, options, title, text, is_disabled,
          created_at, updated_at

-- name: delete_subscription
-- PostgresSubscriptions.remove
DELETE FROM subscriptions WHERE tenant_id = %(tenant_id)s AND subscription_id = %(subscription_id)s RETURNING 1

-- name: list_subscriptions
-- PostgresSubscriptions.list and .find: in the order of their ids, of one owner or of all.
SELECT s.subscription_id::text, s.name, coalesce(u.user_name, s.owner), s.selection, s.connector_id, s.options,
       s.title, s.text, s.is_disabled, s.created_at, s.updated_at
  FROM subscriptions AS s
  LEFT JOIN users AS u ON u.tenant_id = %(tenant_id)s AND u.user_id = s.user_id
 WHERE s.tenant_id = %(tenant_id)s
   AND (%(owner)s::text IS NULL OR lower(coalesce(u.user_name, s.owner)) = lower(%(owner)s::text))
   AND (%(asset_id)s::text IS NULL OR s.selection -> 'assets' ? %(asset_id)s::text)
   AND (%(id)s::uuid IS NULL OR s.subscription_id = %(id)s::uuid)
   AND (%(after)s::uuid IS NULL OR s.subscription_id > %(after)s::uuid)
 ORDER BY s.subscription_id LIMIT %(limit)s
